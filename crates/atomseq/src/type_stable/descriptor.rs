//! What a type must be so that its instances may be read at any time, free or not.

use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8,
    AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
};

/// A type whose instances a [`Pool`](super::Pool) keeps: one that is always a valid instance, be it
/// allocated, free, or fresh from the system.
///
/// A pool never gives out `&mut T`, and never makes or drops a `T`: all of its descriptors begin as
/// zeroed memory and stay instances of `T` for as long as the pool lives. So a `&T` to any of them
/// is sound at any time, whoever owns it; what it reads there may belong to a later owner, and that
/// is for version numbers to tell. Since only shared references exist, the parts of a descriptor
/// that anybody changes are atomics; any other part stays zero for ever.
///
/// [`descriptor!`](super::descriptor!) declares a struct of atomics that is one, without `unsafe`.
///
/// # Safety
///
/// Memory of zeros is a valid instance, and so is one whose bytes all become zero at once while
/// others use it by shared reference, as far as they can change at all. (That happens when a page
/// has been given back to the system.)
pub unsafe trait Descriptor: Sync + Sized {}

macro_rules! descriptors {
    ($($atomic:ty)*) => {$(
        // SAFETY: zero is a value of the integer or address, and it may change at any time.
        unsafe impl Descriptor for $atomic {}
    )*};
}

descriptors! {
    AtomicBool AtomicI8 AtomicI16 AtomicI32 AtomicI64 AtomicIsize AtomicU8 AtomicU16 AtomicU32 AtomicU64
    AtomicUsize
}

// SAFETY: null is an address, and it may change at any time.
unsafe impl<T> Descriptor for AtomicPtr<T> {}

// SAFETY: as many descriptors one after the other, and nothing else.
unsafe impl<D: Descriptor, const N: usize> Descriptor for [D; N] {}

/// Declares a struct that is a [`Descriptor`](crate::type_stable::Descriptor): each of its fields
/// has to be one, such as an atomic or an array of atomics.
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
/// Anything else is refused, for a reader of a free descriptor could meet it half changed:
///
/// ```compile_fail,E0277
/// atomseq::type_stable::descriptor! {
///     struct Entry {
///         name: String,
///     }
/// }
/// ```
///
/// The compiler checks the struct as it is after all attributes were applied, so an attribute may
/// neither add a field nor remove one. A struct that has a field on some targets only is declared
/// twice, each time with `#[cfg]` before the macro:
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
            // SAFETY: what follows compiles only if it is a struct of these fields and no others,
            // each of which is a descriptor.
            unsafe impl $crate::type_stable::Descriptor for $name {}

            // By `$crate` alone: any other name, `::core` included, may mean something else where
            // this is expanded. And without the types that were given: an attribute may have
            // changed them, and a macro in a type's place may expand to another type each time.
            $crate::generated::check_fields::<$name>(|__atomseq_descriptor| {
                let $name { $($field: _,)* } = __atomseq_descriptor;
                $($crate::generated::check_field(&__atomseq_descriptor.$field);)*
            });
        };
    };
}

#[doc(inline)]
pub use crate::__descriptor as descriptor;

/// Of what a function of a whole descriptor says, the compiler has checked the types: that is all.
pub const fn check_fields<D>(_: fn(&D)) {}

/// Takes nothing but a descriptor, of whatever type the field has.
pub const fn check_field<D: Descriptor>(_: &D) {}
