//! The trait of types whose instances may be read at any time, allocated or free.

use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8,
    AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
};

/// A type that a [`Pool`](super::Pool) can hold: its memory is a valid instance whether it is
/// allocated, free, or fresh from the system.
///
/// A pool never hands out `&mut T`, and never constructs or drops a `T`. Its descriptors start as
/// zeroed memory and stay instances of `T` while the pool lives. A `&T` to any of them is therefore
/// sound at any time. The contents read through it may belong to a later owner; version numbers
/// detect this. Only shared references exist, so every part of a descriptor that changes is atomic.
/// Any other part stays zero.
///
/// [`descriptor!`](super::descriptor!) declares such a struct of atomics without `unsafe`.
///
/// # Safety
///
/// Zeroed memory must be a valid instance. Memory whose interior-mutable bytes all become zero at
/// once, while other threads use it by shared reference, must remain one. (This happens when a page
/// is given back to the system.)
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a descriptor in type-stable memory",
    label = "does not implement `Descriptor`",
    note = "use atomics and arrays of them, or declare a struct of them with \
            `atomseq::type_stable::descriptor!`"
)]
pub unsafe trait Descriptor: Sync + Sized {}

macro_rules! descriptors {
    ($($atomic:ty)*) => {$(
        // SAFETY: zero is a valid value of the integer, and atomics may change while they are
        // shared.
        unsafe impl Descriptor for $atomic {}
    )*};
}

descriptors! {
    AtomicBool AtomicI8 AtomicI16 AtomicI32 AtomicI64 AtomicIsize AtomicU8 AtomicU16 AtomicU32 AtomicU64
    AtomicUsize
}

// SAFETY: null is a valid pointer value, and atomics may change while they are shared.
unsafe impl<T> Descriptor for AtomicPtr<T> {}

// SAFETY: an array consists of its elements only, and each element is a descriptor.
unsafe impl<D: Descriptor, const N: usize> Descriptor for [D; N] {}

/// Declares a struct that implements [`Descriptor`](crate::type_stable::Descriptor).
///
/// Each field must implement `Descriptor`, such as an atomic or an array of atomics.
///
/// ```
/// use std::sync::atomic::{AtomicU64, AtomicUsize};
///
/// atomseq::type_stable::descriptor! {
///     /// An entry of a list.
///     pub struct Entry {
///         /// The address of the next one.
///         pub next: AtomicUsize,
///         keys: [AtomicU64; 4],
///     }
/// }
/// let pool = atomseq::type_stable::Pool::<Entry>::new();
/// ```
///
/// Any other field type is refused, because a reader of a free descriptor could see it half
/// changed:
///
/// ```compile_fail,E0277
/// atomseq::type_stable::descriptor! {
///     struct Entry {
///         name: String,
///     }
/// }
/// ```
///
/// The compiler checks the struct after all attributes are applied, so no attribute may add or
/// remove a field. Declare a struct with a target-specific field twice, each time with `#[cfg]`
/// before the macro:
///
/// ```compile_fail,E0026
/// atomseq::type_stable::descriptor! {
///     struct Entry {
///         key: std::sync::atomic::AtomicU64,
///         #[cfg(any())]
///         hint: std::sync::atomic::AtomicU64,
///     }
/// }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __descriptor {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident {
        $($(#[$of_field:meta])* $field_visibility:vis $field:ident: $type:ty),* $(,)?
    }) => {
        $(#[$attribute])*
        $visibility struct $name {
            $($(#[$of_field])* $field_visibility $field: $type,)*
        }

        const _: () = {
            // SAFETY: the check below compiles only if the struct has exactly these fields and each
            // is a descriptor. Zeroed memory is then valid for every field and thus for the struct.
            unsafe impl $crate::type_stable::Descriptor for $name {}

            // Names only paths that start with `$crate`: any other, `::core` included, may mean
            // something else at the place of expansion. Repeats no given type: an attribute may
            // have changed it, and a macro in type position may expand differently each time.
            $crate::generated::check_fields::<$name>(|__atomseq_descriptor| {
                let $name { $($field: _,)* } = __atomseq_descriptor;
                $($crate::generated::check_field(&__atomseq_descriptor.$field);)*
            });
        };
    };
}

#[doc(inline)]
pub use crate::__descriptor as descriptor;

/// Accepts a function over a whole descriptor, so that the compiler type-checks its body. Does
/// nothing at run time.
pub const fn check_fields<D>(_: fn(&D)) {}

/// Compiles only if the field's type is a descriptor. Does nothing at run time.
pub const fn check_field<D: Descriptor>(_: &D) {}
