//! What can be wrong with a pool, or with a request to one.

use std::fmt;

/// Why there is no pool, or no descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A limit of zero descriptors was asked for.
    Zero,
    /// So many descriptors, or one so large, do not fit the address space.
    TooLarge,
    /// The operating system gave no memory.
    OutOfMemory,
    /// A pool was asked for from inside atomseq's start-up, which has not found out yet how many
    /// CPUs there can be.
    StartingUp,
    /// As many descriptors as the limit allows are allocated.
    LimitReached,
    /// No descriptor of a [`Cache`](super::Cache) is free, and none can be written back: each is in
    /// use, in the hands of a thread that loads, unloads or writes it back, or kept by the cache's
    /// owner.
    AllInUse,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Zero => "a pool of zero descriptors gives none: ask for at least one",
            Error::TooLarge => {
                "the descriptors do not fit the address space: ask for fewer, or for smaller ones"
            }
            Error::OutOfMemory => {
                "the operating system gave no memory for more descriptors: free some, or raise its limits"
            }
            Error::StartingUp => {
                "atomseq was asked from inside its own start-up: ask again once the first call has returned"
            }
            Error::LimitReached => {
                "no descriptor was found within the pool's limit, though one may have moved meanwhile: free some, or raise the limit"
            }
            Error::AllInUse => {
                "no descriptor of the cache is free, and none may be written back now: end some uses, or raise the limit"
            }
        })
    }
}

impl std::error::Error for Error {}
