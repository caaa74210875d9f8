//! What fits in one machine word, and so can be an element of a per-CPU structure in place.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

/// What a structure has that keeps values of this type as words, which go in and out by shared
/// reference: so it must be invariant. Were it not, one of `&'static str`s would pass for one of
/// shorter lives, which would come out as `'static`.
pub(crate) type Invariant<T> = PhantomData<fn(T) -> T>;

/// A value that travels as one machine word.
///
/// Integers up to a word, pointers, [`Box`] and [`Arc`] of sized types. Anything larger is boxed by
/// the caller, or goes into a [`Ring`](crate::percpu::Ring), which holds values of any size.
///
/// # Safety
///
/// `from_word(into_word(value))` gives the value back, ownership included, and a word that is
/// dropped without `from_word` is only leaked.
pub unsafe trait AsWord: Sized {
    /// Gives the value up for its word.
    fn into_word(self) -> usize;

    /// Takes the value back.
    ///
    /// # Safety
    ///
    /// The word came from `into_word` of this type, and is taken back once.
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
    )*};
}

integers!(u8 u16 u32 usize i8 i16 i32 isize);
#[cfg(target_pointer_width = "64")]
integers!(u64 i64);

macro_rules! pointers {
    ($([$($parameter:tt)*] $pointer:ty, |$value:ident| $into:expr, |$address:ident| $from:expr;)*) => {$(
        // SAFETY: the pointer is given up and taken back as an address, its provenance exposed.
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
                // SAFETY: the caller's promise: `into_word` of this type made the word.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: AsWord>(value: T) -> T {
        // SAFETY: the word is taken back once, as its own type.
        unsafe { T::from_word(value.into_word()) }
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
    }
}
