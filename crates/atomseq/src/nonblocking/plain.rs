//! Values that several threads may read where they lie, while a later owner of the memory writes
//! there.

use std::cell::UnsafeCell;
use std::mem::{MaybeUninit, size_of};

use crate::sync::{AtomicU64, Ordering};

/// A type whose values may be copied out of a descriptor that somebody may be overwriting: a key or
/// a value of a [`List`](super::List).
///
/// Such a copy is made word by word, each read at once, and counts only if the list's version has
/// not changed since. If it has, what was read may be half of one value and half of another. So
/// every pattern of bits has to be a value. Comparing values that nobody ever stored has to end. A
/// panic of it [is the operation's](super::List), as if the values had been stored.
///
/// Integers, floating-point numbers, arrays of what is plain, [`Wrapping`](std::num::Wrapping) and
/// [`Reverse`](std::cmp::Reverse) of it, and `()` are. [`plain!`](super::plain!) declares a struct
/// that is, without `unsafe`.
///
/// What owns something is not, for the copy would own it too; nor is what refers to something:
///
/// ```compile_fail,E0277
/// atomseq::nonblocking::List::<u64, String>::new();
/// ```
///
/// ```compile_fail,E0277
/// atomseq::nonblocking::List::<&'static str, u64>::new();
/// ```
///
/// nor what has patterns that are no value, such as `bool`, `char` and `enum`s:
///
/// ```compile_fail,E0277
/// atomseq::nonblocking::List::<u64, bool>::new();
/// ```
///
/// # Safety
///
/// Every pattern of bits is a value, all bytes of every value are initialized (there is no
/// padding), and nothing inside changes by shared reference.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! integers {
    ($($type:ty)*) => {$(
        // SAFETY: each pattern of bits is a number, and there are no other bytes.
        unsafe impl Plain for $type {}
    )*};
}

integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

// SAFETY: there are no bytes.
unsafe impl Plain for () {}

// SAFETY: one after the other, with nothing between them: an array's element is as large as its
// alignment says.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

// SAFETY: the same bytes as what is inside.
unsafe impl<T: Plain> Plain for std::num::Wrapping<T> {}

// SAFETY: as above.
unsafe impl<T: Plain> Plain for std::cmp::Reverse<T> {}

/// Declares a struct that is [`Plain`](crate::nonblocking::Plain): each of its fields is, and there
/// is no padding between them. The struct is `#[repr(C)]`, `Clone` and `Copy`.
///
/// ```
/// atomseq::nonblocking::plain! {
///     /// Most frequent first.
///     #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
///     pub struct Rank {
///         pub count: std::cmp::Reverse<u64>,
///         pub word: [u8; 32],
///     }
/// }
/// let ranking = atomseq::nonblocking::List::<Rank>::new();
/// ```
///
/// Padding would have to be read with the rest, and has no value:
///
/// ```compile_fail,E0080
/// atomseq::nonblocking::plain! {
///     struct Padded {
///         small: u8,
///         large: u64,
///     }
/// }
/// ```
///
/// ```compile_fail,E0277
/// atomseq::nonblocking::plain! {
///     struct Owner {
///         text: String,
///     }
/// }
/// ```
///
/// The compiler checks the struct as it is after all attributes were applied, so an attribute may
/// neither add a field nor remove one. A struct that has a field on some targets only is declared
/// twice, each time with `#[cfg]` before the macro:
///
/// ```compile_fail,E0026
/// atomseq::nonblocking::plain! {
///     struct Gap {
///         small: u8,
///         #[cfg(any())]
///         gap: [u8; 7],
///         large: u64,
///     }
/// }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __plain {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident {
        $($(#[$of_field:meta])* $field_visibility:vis $field:ident: $type:ty),+ $(,)?
    }) => {
        $(#[$attribute])*
        #[$crate::generated::standard::derive($crate::generated::standard::Clone, $crate::generated::standard::Copy)]
        #[repr(C)]
        $visibility struct $name {
            $($(#[$of_field])* $field_visibility $field: $type,)+
        }

        const _: () = {
            // SAFETY: what follows compiles only if it is a struct of these fields and no others,
            // each of which is plain, and if they are together as large as it is, so that no bytes
            // lie between or behind them.
            unsafe impl $crate::nonblocking::Plain for $name {}

            // By `$crate` alone: any other name, `::core` included, may mean something else where
            // this is expanded. And without the types that were given: an attribute may have
            // changed them, and a macro in a type's place may expand to another type each time.
            $crate::generated::check_plain::<$name>(
                |__atomseq_plain| {
                    let $name { $($field: _,)+ } = __atomseq_plain;
                    // Safe code cannot read the field of a union.
                    $(let _ = { __atomseq_plain.$field };)+
                },
                &[$($crate::generated::size_of_field(|__atomseq_plain: &$name| &raw const __atomseq_plain.$field)),+],
            );
        };
    };
}

#[doc(inline)]
pub use crate::__plain as plain;

/// Does not compile if there are bytes in a type that belong to none of its fields, which a pattern
/// has named.
pub const fn check_plain<T: Plain>(_: fn(&T), sizes_of_fields: &[usize]) {
    let (mut together, mut index) = (0, 0);
    while index < sizes_of_fields.len() {
        together += sizes_of_fields[index];
        index += 1;
    }
    assert!(
        size_of::<T>() == together,
        "there is padding: order the fields by size, the largest first, or fill it with arrays of u8"
    );
}

/// The size of whatever type the field has that the function leads to, which must be plain.
///
/// By address, for a value may turn into one of another type: `!` turns into any, and before the
/// edition of 2024 into `()`.
///
/// ```compile_fail,edition2021,E0277
/// #![allow(dependency_on_unit_never_type_fallback, unreachable_code)]
/// trait Returns { type Value; }
/// impl<T> Returns for fn() -> T { type Value = T; }
/// type Never = <fn() -> ! as Returns>::Value;
///
/// atomseq::nonblocking::plain! {
///     struct Impossible { number: u64, never: Never }
/// }
/// ```
///
/// The control: the same without it.
///
/// ```edition2021
/// trait Returns { type Value; }
/// impl<T> Returns for fn() -> T { type Value = T; }
/// type Nothing = <fn() -> () as Returns>::Value;
///
/// atomseq::nonblocking::plain! {
///     struct Possible { number: u64, nothing: Nothing }
/// }
/// ```
pub const fn size_of_field<T, F: Plain>(_: fn(&T) -> *const F) -> usize {
    size_of::<F>()
}

/// The bytes of a value.
pub(super) fn bytes<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: all of them are initialized, and none changes by shared reference.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// A value that is written and read as atomic words. Zeroed memory is one that holds nothing meant.
#[repr(C, align(8))]
pub(super) struct Words<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: all access is by atomic words.
unsafe impl<T: Plain> Sync for Words<T> {}

/// A value with as many bytes as its words have.
#[repr(C, align(8))]
struct Padded<T>(MaybeUninit<T>);

impl<T: Plain> Words<T> {
    pub(super) const COUNT: usize = size_of::<Words<T>>() / size_of::<u64>();

    fn word(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < Self::COUNT);
        let first = self.0.get().cast::<u64>();
        // SAFETY: within, aligned by the attribute, and everybody reaches it as an atomic.
        unsafe { AtomicU64::from_ptr(first.add(index)) }
    }

    /// What lies there: counts only if the version does not change meanwhile.
    #[inline]
    pub(super) fn load(&self) -> T {
        let mut copy = MaybeUninit::<Padded<T>>::uninit();
        let words = copy.as_mut_ptr().cast::<u64>();
        for index in 0..Self::COUNT {
            // Relaxed: pairs with the fence in `VersionedWords::is_still`, before the version is
            // looked at.
            let word = self.word(index).load(Ordering::Relaxed);
            // SAFETY: a word of the copy, which is as large and as aligned as this.
            unsafe { words.add(index).write(word) };
        }
        // SAFETY: all of its words were written, and any bits are a value of a plain type.
        unsafe { copy.assume_init().0.assume_init() }
    }

    /// Writes a value. The caller alone owns the words, whoever else may read them.
    #[inline]
    pub(super) fn store(&self, value: T) {
        let mut copy = MaybeUninit::<Padded<T>>::zeroed();
        // SAFETY: room for a value; as many bytes are written as it has, the rest stays zero.
        unsafe { copy.as_mut_ptr().cast::<T>().write(value) };
        let words = copy.as_ptr().cast::<u64>();
        for index in 0..Self::COUNT {
            // SAFETY: a word of the copy, all of whose bytes are initialized: a plain value has no
            // padding.
            let word = unsafe { words.add(index).read() };
            // Relaxed: after the release fence of whoever became the owner, or before the exchange
            // that shows it.
            self.word(index).store(word, Ordering::Relaxed);
        }
    }
}
