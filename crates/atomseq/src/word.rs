//! Values that fit in one machine word, and can be stored in place in a per-CPU structure.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

/// A marker for structures that store values of this type as words. Values go in and out through a
/// shared reference, so such a structure must be invariant. Otherwise a structure of `&'static str`
/// could be used as one of shorter-lived references, which would come out as `'static`.
pub(crate) type Invariant<T> = PhantomData<fn(T) -> T>;

/// A value that can be converted to one machine word and back.
///
/// Implemented for integers up to a word, pointers, references, [`Box`] and [`Arc`] of sized types.
/// Box a larger value, or store it in a [`Ring`](crate::percpu::Ring), which holds values of any
/// size.
///
/// # Safety
///
/// `from_word(into_word(value))` must return an equal value, ownership included. A word that is
/// dropped without `from_word` must only leak the value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be converted to one machine word",
    label = "does not implement `AsWord`",
    note = "box it, for example `Stack<Box<{Self}>>`, or use a `Ring`, which holds values of any size"
)]
pub unsafe trait AsWord: Sized {
    /// Converts the value into a word, which then owns it.
    fn into_word(self) -> usize;

    /// Converts a word back into the value.
    ///
    /// # Safety
    ///
    /// The word must come from `into_word` of this type, and be converted back only once.
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
        // SAFETY: the pointer becomes an address with exposed provenance and is restored from it,
        // ownership included. Dropping an address only leaks.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: AsWord>(value: T) -> T {
        // SAFETY: the word is converted back once, as its own type.
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
