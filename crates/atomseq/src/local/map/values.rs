//! The types of values: what [`Map::add`](super::Map::add) accepts, and what a full map returns.

use std::fmt;

use crate::AsWord;

/// The map is full. Contains the value that was to be inserted with a new key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<V>(pub V);

impl<V> fmt::Debug for Full<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full(..)")
    }
}

impl<V> fmt::Display for Full<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the map is full: remove keys, drain it, or give its type a larger capacity")
    }
}

impl<V> std::error::Error for Full<V> {}

/// The integers that [`Map::add`](super::Map::add) can add.
#[diagnostic::on_unimplemented(
    message = "a map cannot add to a `{Self}`",
    label = "not an integer of at most a word",
    note = "use integers, or `get` and `insert`"
)]
pub trait Integer: AsWord + Copy + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl sealed::Sealed for $integer {}
        impl Integer for $integer {}
    )*};
}

integers!(u8 u16 u32 usize i8 i16 i32 isize);
#[cfg(target_pointer_width = "64")]
integers!(u64 i64);
