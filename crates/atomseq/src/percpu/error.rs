//! What can be wrong with a request for a structure.

use std::fmt;

/// Why a per-CPU structure could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A capacity of zero was asked for.
    ZeroCapacity,
    /// A capacity was asked for whose size does not fit the address space.
    TooLarge,
    /// The operating system gave no memory.
    OutOfMemory,
    /// Asked from inside atomseq's start-up, which has not found out yet how many CPUs there can
    /// be.
    StartingUp,
    /// The bounds of a histogram do not rise strictly, or are none or more than 255.
    Bounds,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::ZeroCapacity => "a capacity of zero holds nothing: ask for at least one",
            Error::TooLarge => "the capacity is larger than the address space: ask for less",
            Error::OutOfMemory => {
                "the operating system gave no memory for a slot a CPU: ask for less, or raise its limits"
            }
            Error::StartingUp => {
                "atomseq was asked from inside its own start-up: ask again once the first call has returned"
            }
            Error::Bounds => "histogram bounds must rise strictly, and there must be from 1 to 255 of them",
        })
    }
}

impl std::error::Error for Error {}
