//! The errors of constructors.

use std::fmt;

/// Why a per-CPU structure could not be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The requested capacity is zero.
    ZeroCapacity,
    /// The requested capacity, with its element size, exceeds the address space or the limits of
    /// the structure. So does the precision of a histogram.
    TooLarge,
    /// The operating system refused the memory.
    OutOfMemory,
    /// The constructor was called from within atomseq's start-up, before the number of possible
    /// CPUs is known.
    StartingUp,
    /// The bounds of a histogram do not increase strictly, or one is not finite (of a histogram of
    /// floating-point numbers), or there are none, or more than 255.
    Bounds,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::ZeroCapacity => "a capacity of zero holds nothing: ask for at least one",
            Error::TooLarge => {
                "the capacity, the size of an element or the precision exceeds what the structure can hold: ask for less, or box the elements"
            }
            Error::OutOfMemory => {
                "the operating system refused the memory for one slot per CPU: ask for less, or raise the process's limits"
            }
            Error::StartingUp => {
                "called from within atomseq's own start-up: retry after the first call has returned"
            }
            Error::Bounds => "histogram bounds must be finite and increase strictly, and there must be from 1 to 255 of them",
        })
    }
}

impl std::error::Error for Error {}
