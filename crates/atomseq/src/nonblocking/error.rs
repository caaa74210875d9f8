//! What can be wrong with a request for a structure.

use std::fmt;

/// Why there is no such structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A capacity of zero was asked for.
    ZeroCapacity,
    /// There is no memory for a capacity like that.
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
