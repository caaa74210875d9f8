//! Values that fit in one machine word, and can be stored in place in a per-CPU structure.

use std::marker::PhantomData;
use std::num::NonZero;
use std::ptr::{self, NonNull, null};
use std::sync::Arc;

/// A marker for structures that store values of this type as words. Values go in and out through a
/// shared reference, so such a structure must be invariant. Otherwise a structure of `&'static str`
/// could be used as one of shorter-lived references, which would come out as `'static`.
pub(crate) type Invariant<T> = PhantomData<fn(T) -> T>;

/// A value that can be converted to one machine word and back.
///
/// Implemented for `bool`, `char`, integers and floats up to a word, [`NonZero`] integers, raw
/// pointers, [`NonNull`], references, [`Box`] and [`Arc`] of sized types, and an [`Option`] of the
/// last four and of `NonZero`, whose `None` is the word 0. Box a larger value, or store it in a
/// [`Ring`](crate::percpu::Ring), which holds values of up to 4 KiB, or in a
/// [`LinkedQueue`](crate::nonblocking::LinkedQueue) or
/// [`LinkedStack`](crate::nonblocking::LinkedStack), which hold values of any type.
///
/// # Safety
///
/// `from_word(into_word(value))` must return an equal value, ownership included. A word that is
/// dropped without `from_word` must only leak the value. If the type is [`Copy`], a word may be
/// converted back any number of times, and each conversion must return an equal value: a `Copy`
/// type must not be boxed in `into_word` and freed in `from_word`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be converted to one machine word",
    label = "does not implement `AsWord`",
    note = "box it: `Box<{Self}>`; or use a `Ring`, or a `LinkedQueue` or `LinkedStack`, which hold \
            larger values"
)]
pub unsafe trait AsWord: Sized {
    /// Converts the value into a word, which then owns it.
    fn into_word(self) -> usize;

    /// Converts a word back into the value.
    ///
    /// # Safety
    ///
    /// The word must come from `into_word` of this type, and be converted back only once unless the
    /// type is `Copy`.
    unsafe fn from_word(word: usize) -> Self;
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        // SAFETY: an integer no wider than a word survives the casts.
        unsafe impl AsWord for $integer {
            #[inline]
            fn into_word(self) -> usize {
                self as usize
            }
            #[inline]
            unsafe fn from_word(word: usize) -> Self {
                word as Self
            }
        }

        // SAFETY: as for the integer itself.
        unsafe impl AsWord for NonZero<$integer> {
            #[inline]
            fn into_word(self) -> usize {
                self.get() as usize
            }
            #[inline]
            unsafe fn from_word(word: usize) -> Self {
                // SAFETY: by the contract the word is that of an integer other than zero.
                unsafe { NonZero::new_unchecked(word as $integer) }
            }
        }

        // SAFETY: 0 stands for `None`, and is the word of no other value.
        unsafe impl AsWord for Option<NonZero<$integer>> {
            #[inline]
            fn into_word(self) -> usize {
                self.map_or(0, AsWord::into_word)
            }
            #[inline]
            unsafe fn from_word(word: usize) -> Self {
                NonZero::new(word as $integer)
            }
        }
    )*};
}

integers!(u8 u16 u32 usize i8 i16 i32 isize);
#[cfg(target_pointer_width = "64")]
integers!(u64 i64);

// SAFETY: `true` is the word 1, and `false` is 0.
unsafe impl AsWord for bool {
    #[inline]
    fn into_word(self) -> usize {
        self.into()
    }
    #[inline]
    unsafe fn from_word(word: usize) -> Self {
        word != 0
    }
}

// SAFETY: the word is the code point.
unsafe impl AsWord for char {
    #[inline]
    fn into_word(self) -> usize {
        u32::from(self) as usize
    }
    #[inline]
    unsafe fn from_word(word: usize) -> Self {
        // SAFETY: by the contract the word is a `char`'s code point.
        unsafe { char::from_u32_unchecked(word as u32) }
    }
}

macro_rules! floats {
    ($($float:ty)*) => {$(
        // SAFETY: the bits, which are no wider than a word, survive the casts.
        unsafe impl AsWord for $float {
            #[inline]
            fn into_word(self) -> usize {
                self.to_bits() as usize
            }
            #[inline]
            unsafe fn from_word(word: usize) -> Self {
                <$float>::from_bits(word as _)
            }
        }
    )*};
}

floats!(f32);
#[cfg(target_pointer_width = "64")]
floats!(f64);

macro_rules! pointers {
    ($([$($parameter:tt)*] $pointer:ty, |$value:ident| $into:expr, |$address:ident| $from:expr;)*) => {$(
        // SAFETY: the pointer becomes an address with exposed provenance and is restored from it,
        // ownership included. Null stands for `None`, where this is an `Option`. Dropping an
        // address only leaks.
        unsafe impl<$($parameter)*> AsWord for $pointer {
            #[inline]
            fn into_word(self) -> usize {
                let $value = self;
                let pointer: *const T = $into;
                pointer.expose_provenance()
            }
            #[inline]
            unsafe fn from_word(word: usize) -> Self {
                let $address: *mut T = std::ptr::with_exposed_provenance_mut(word);
                // SAFETY: by the contract, `into_word` of this type made the word, so the address
                // is that of a valid `T` where this type requires one, and owns what this type
                // owns.
                #[allow(unused_unsafe)]
                unsafe { $from }
            }
        }
    )*};
}

pointers! {
    [T] *mut T, |value| value, |address| address;
    [T] *const T, |value| value, |address| address;
    [T] NonNull<T>, |value| value.as_ptr(), |address| NonNull::new_unchecked(address);
    [T] Box<T>, |value| Box::into_raw(value), |address| Box::from_raw(address);
    [T] Arc<T>, |value| Arc::into_raw(value), |address| Arc::from_raw(address);
    ['a, T] &'a T, |value| value, |address| &*address;
    [T] Option<NonNull<T>>, |value| value.map_or(null(), |value| value.as_ptr()), |address| NonNull::new(address);
    [T] Option<Box<T>>, |value| value.map_or(null(), |value| Box::into_raw(value)), |address| unless_null(address, |address| Box::from_raw(address));
    [T] Option<Arc<T>>, |value| value.map_or(null(), Arc::into_raw), |address| unless_null(address, |address| Arc::from_raw(address));
    ['a, T] Option<&'a T>, |value| value.map_or(null(), ptr::from_ref), |address| address.cast_const().as_ref();
}

/// Returns what `make` makes of the address, or `None` if it is null.
#[inline]
fn unless_null<T, P>(address: *mut T, make: impl FnOnce(*mut T) -> P) -> Option<P> {
    (!address.is_null()).then(|| make(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: AsWord>(value: T) -> T {
        // SAFETY: the word is converted back once, as its own type.
        unsafe { T::from_word(value.into_word()) }
    }

    /// `local::Map` converts the words of such types more than once.
    #[test]
    fn a_word_of_a_type_that_can_be_copied_comes_back_any_number_of_times() {
        fn comes_back_twice<T: AsWord + Copy + PartialEq + std::fmt::Debug>(value: T) {
            let word = value.into_word();
            // SAFETY: the word is that of `value`, whose type is `Copy`.
            assert_eq!([(); 2].map(|()| unsafe { T::from_word(word) }), [value; 2]);
        }
        comes_back_twice(-7i8);
        comes_back_twice('x');
        comes_back_twice(1.5f32);
        comes_back_twice(&"text");
        comes_back_twice(Some(&"text"));
        comes_back_twice(NonZero::new(3u16));
        comes_back_twice(NonNull::from(&5));
        comes_back_twice(ptr::from_ref(&5));
    }

    #[test]
    fn values_come_back() {
        assert_eq!(round_trip(-7i8), -7);
        assert_eq!(round_trip(i32::MIN), i32::MIN);
        assert_eq!(round_trip(u16::MAX), u16::MAX);
        assert_eq!(round_trip(usize::MAX), usize::MAX);
        assert_eq!(*round_trip(Box::new(5)), 5);
        assert_eq!(round_trip(&"text"), &"text");
        let shared = Arc::new(1);
        assert_eq!(Arc::strong_count(&round_trip(shared.clone())), 2);
        assert_eq!(Arc::strong_count(&shared), 1);
        assert!(round_trip(std::ptr::null_mut::<u8>()).is_null());
        assert_eq!([true, false].map(round_trip), [true, false]);
        assert_eq!(['\0', char::MAX].map(round_trip), ['\0', char::MAX]);
        assert_eq!(round_trip(-1.5f32), -1.5);
        assert_eq!(round_trip(-0.0f32).to_bits(), (-0.0f32).to_bits());
        let payload = f32::from_bits(f32::NAN.to_bits() | 77);
        assert_eq!(round_trip(payload).to_bits(), payload.to_bits());
        assert_eq!(round_trip(NonZero::<i8>::MIN).get(), -128);
        assert_eq!(round_trip(NonZero::<usize>::MAX), NonZero::<usize>::MAX);
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn values_of_64_bits_come_back() {
        assert_eq!(round_trip(i64::MIN), i64::MIN);
        assert_eq!(round_trip(-0.0f64).to_bits(), (-0.0f64).to_bits());
        let payload = f64::from_bits(f64::NAN.to_bits() | 77);
        assert_eq!(round_trip(payload).to_bits(), payload.to_bits());
        assert_eq!(round_trip(NonZero::<u64>::MAX), NonZero::<u64>::MAX);
    }

    #[test]
    fn options_come_back() {
        assert_eq!(round_trip(NonZero::new(0u16)), None);
        assert_eq!(round_trip(NonZero::new(-1i32)), NonZero::new(-1));
        assert_eq!(round_trip(None::<Box<u8>>), None);
        assert_eq!(
            round_trip(Some(Box::new("boxed"))).as_deref(),
            Some(&"boxed")
        );
        assert_eq!(round_trip(Some(Box::new(()))), Some(Box::new(())));
        assert_eq!(round_trip(None::<NonNull<u8>>), None);
        assert_eq!(round_trip(Some(&"text")), Some(&"text"));
        assert_eq!(round_trip(None::<&u8>), None);
        let shared = Arc::new(1);
        assert_eq!(round_trip(Some(shared.clone())), Some(shared.clone()));
        assert_eq!(Arc::strong_count(&shared), 1);
        assert_eq!(round_trip(None::<Arc<u8>>), None);
    }
}
