//! The errors of constructors in this module.

use std::fmt;

/// Why a structure could not be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The capacity was zero.
    ZeroCapacity,
    /// There is no memory for this capacity.
    OutOfMemory,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::ZeroCapacity => "a capacity of zero holds nothing: ask for at least one",
            Error::OutOfMemory => "there is no memory for so large a capacity: ask for less",
        })
    }
}

impl std::error::Error for Error {}
