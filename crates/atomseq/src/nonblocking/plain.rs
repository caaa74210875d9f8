//! Values that several threads may copy out of memory while a later owner of that memory writes to
//! it.

use std::cell::UnsafeCell;
use std::mem::{MaybeUninit, size_of};

use crate::sync::{AtomicU64, Ordering};

/// Types whose values may be copied out of a node that another thread may be overwriting: the keys
/// and values of a [`List`](super::List).
///
/// Such a copy is made word by word, each word by one atomic load, and counts only if the list's
/// version is unchanged afterwards. Otherwise it may be half of one value and half of another. So
/// every bit pattern must be a valid value. Comparing values that no thread ever stored must
/// terminate. If such a comparison panics, [the operation panics](super::List), as if the values
/// had been stored.
///
/// `Plain` are integers, floating-point numbers, `()`, and arrays, [`Wrapping`](std::num::Wrapping)
/// and [`Reverse`](std::cmp::Reverse) of plain types. [`plain!`](super::plain!) declares a plain
/// struct, without `unsafe`.
///
/// Types that own something are not plain, because each copy would own it too. Nor are references:
///
/// ```compile_fail,E0277
/// atomseq::nonblocking::List::<u64, String>::new();
/// ```
///
/// ```compile_fail,E0277
/// atomseq::nonblocking::List::<&'static str, u64>::new();
/// ```
///
/// Nor are types with invalid bit patterns, such as `bool`, `char` and `enum`s:
///
/// ```compile_fail,E0277
/// atomseq::nonblocking::List::<u64, bool>::new();
/// ```
///
/// # Safety
///
/// Every bit pattern is a valid value, all bytes of every value are initialized (there is no
/// padding), and nothing in a value changes through a shared reference.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be copied while another thread overwrites it",
    label = "does not implement `Plain`",
    note = "use integers, floating-point numbers and arrays of them, or declare a struct of them \
            with `atomseq::nonblocking::plain!`; keep other values in a `RefList`, which lends \
            them, or, if none is searched for, in a `LinkedQueue` or a `Ring`"
)]
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! integers {
    ($($type:ty)*) => {$(
        // SAFETY: every bit pattern is a number, and the type has no padding.
        unsafe impl Plain for $type {}
    )*};
}

integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

// SAFETY: the type has no bytes.
unsafe impl Plain for () {}

// SAFETY: the elements are plain and lie without gaps, because a type's size is a multiple of its
// alignment.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

// SAFETY: the type has exactly the bytes of its plain field.
unsafe impl<T: Plain> Plain for std::num::Wrapping<T> {}

// SAFETY: the type has exactly the bytes of its plain field.
unsafe impl<T: Plain> Plain for std::cmp::Reverse<T> {}

/// Declares a struct that is [`Plain`](crate::nonblocking::Plain): each field is plain, and there
/// is no padding. The struct is `#[repr(C)]`, `Clone` and `Copy`.
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
/// Padding does not compile, because its bytes would be read as part of the value:
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
/// The compiler checks the struct after all attributes have been applied, so an attribute may
/// neither add nor remove a field. Declare a struct that has a field only on some targets twice,
/// each with `#[cfg]` before the macro:
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
            // SAFETY: the code below compiles only if the type is a struct of exactly these fields,
            // each of which is plain, and if the fields' sizes add up to the size of the struct, so
            // that it has no padding.
            unsafe impl $crate::nonblocking::Plain for $name {}

            // Only paths through `$crate` are used: any other name, `::core` included, may mean
            // something else where this is expanded. The given types are not used again: an
            // attribute may have changed them, and a macro in the place of a type may expand to
            // another type each time.
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

/// Fails to compile if the type has bytes that belong to none of its fields, which the function's
/// pattern has named.
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

/// Returns the size of the field's type, which must be plain, whatever that type is.
///
/// The function returns the field's address, because a value may be coerced to another type: `!` to
/// any type, and before edition 2024 to `()`.
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
/// The control is the same without `!`:
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

/// Returns the bytes of a value.
pub(super) fn bytes<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: all bytes of a plain value are initialized, and none changes through a shared
    // reference.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// A value that is written and read as atomic words. Zeroed memory is valid, and has no meaning.
///
/// The cell contains the padding: the words include it, and shared references may write only what
/// lies in a cell.
#[repr(transparent)]
pub(super) struct Words<T>(pub(super) UnsafeCell<Padded<T>>);

// SAFETY: every access through a shared reference is by atomic words.
unsafe impl<T: Plain> Sync for Words<T> {}

/// A value padded to whole words.
#[repr(C, align(8))]
pub(super) struct Padded<T>(MaybeUninit<T>);

impl<T: Plain> Words<T> {
    pub(super) const COUNT: usize = size_of::<Words<T>>() / size_of::<u64>();

    fn word(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < Self::COUNT);
        let first = self.0.get().cast::<u64>();
        // SAFETY: the index lies within the value, which is aligned to 8 bytes, and every access is
        // atomic.
        unsafe { AtomicU64::from_ptr(first.add(index)) }
    }

    /// Returns the value. It counts only if the version is unchanged afterwards.
    #[inline]
    pub(super) fn load(&self) -> T {
        let mut copy = MaybeUninit::<Padded<T>>::uninit();
        let words = copy.as_mut_ptr().cast::<u64>();
        for index in 0..Self::COUNT {
            // Relaxed: the acquire fence in `VersionedWords::is_still`, which follows, orders it
            // before the load of the version.
            let word = self.word(index).load(Ordering::Relaxed);
            // SAFETY: the index lies within the copy, which has the size and alignment of
            // `Words<T>`.
            unsafe { words.add(index).write(word) };
        }
        // SAFETY: all words of the copy were written, and every bit pattern is a value of a plain
        // type.
        unsafe { copy.assume_init().0.assume_init() }
    }

    /// Stores a value. The caller alone owns the words; other threads may read them.
    #[inline]
    pub(super) fn store(&self, value: T) {
        let mut copy = MaybeUninit::<Padded<T>>::uninit();
        // SAFETY: the copy has room for a value. It is made zero where it lies: a move, even that
        // of the result of `zeroed`, does not keep the padding. The bytes behind the value stay
        // zero.
        unsafe {
            copy.as_mut_ptr().write_bytes(0, 1);
            copy.as_mut_ptr().cast::<T>().write(value);
        }
        let words = copy.as_ptr().cast::<u64>();
        for index in 0..Self::COUNT {
            // SAFETY: the index lies within the copy, all of whose bytes are initialized: a plain
            // value has no padding, and the rest is zero.
            let word = unsafe { words.add(index).read() };
            // Relaxed: ordered after the release fence of the thread that became the owner, which
            // pairs with the acquire fence in `VersionedWords::is_still`; or published by the
            // change that links the node.
            self.word(index).store(word, Ordering::Relaxed);
        }
    }
}
