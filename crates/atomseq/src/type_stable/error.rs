//! The errors of pools and caches.

use std::fmt;

/// Reports why a pool could not be created, or no descriptor allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The requested limit is zero descriptors.
    Zero,
    /// The requested number or size of descriptors, or the number that CPUs keep, exceeds the
    /// address space, or descriptors are aligned to more than a page of the system.
    TooLarge,
    /// The operating system refused memory.
    OutOfMemory,
    /// The pool was requested during atomseq's own initialization, before the number of CPUs is
    /// known.
    StartingUp,
    /// No descriptor within the limit was found free. See
    /// [`Pool::allocate`](super::Pool::allocate).
    LimitReached,
    /// No descriptor of a [`Cache`](super::Cache) is free, and none can be written back. Each one
    /// is in use, is being loaded, unloaded or written back by a thread, or was not chosen by
    /// [`WriteBack::choose`](super::WriteBack::choose).
    AllInUse,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Zero => "the limit is zero descriptors: request at least one",
            Error::TooLarge => {
                "the descriptors, or those that CPUs keep, exceed the address space, or their alignment a page: request fewer, smaller or less aligned ones"
            }
            Error::OutOfMemory => {
                "the operating system refused memory for more descriptors: free some, or raise its limits"
            }
            Error::StartingUp => {
                "the pool was requested during atomseq's own start-up; retry after the first call has returned"
            }
            Error::LimitReached => {
                "no free descriptor was found within the pool's limit: free some, or raise the limit"
            }
            Error::AllInUse => {
                "no descriptor of the cache is free, and none can be written back now: end some uses, or raise the limit"
            }
        })
    }
}

impl std::error::Error for Error {}
