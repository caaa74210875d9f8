//! M94 2.3.2: what a page fault does to a sequence, and three ways to keep it from doing harm.
//!
//! M94's threads share one processor. One runs at a time, and the next one runs after an interrupt,
//! before which the sequence of the first is rolled forward, or after a page fault. A page fault in
//! the middle of a sequence therefore lets other threads see the object half changed.
//!
//! | way | what keeps the object whole | price |
//! |---|---|---|
//! | pinning: [`Region::pin`] | its pages stay in memory, so there is no fault | memory |
//! | one page: [`is_on_one_page`] | the first access faults, before anything is read | objects of a page at most |
//! | [`Gate`] | the handler of the fault closes the object's gate, which other threads' sequences test | a load and a branch a sequence |
//!
//! After the fault the sequence is rolled forward, as after an interrupt, and then the gate is
//! opened. Further faults on the way find it closed already. The handlers of one thread's signals
//! need no gate: they run after the sequence.
//!
//! A page fault of the kernel's is invisible to its process. A [`Region`] is memory whose pages the
//! process itself moves in and out, so that it sees each fault: by `userfaultfd` where the system
//! allows it, else by pages that may not be accessed, whose fault is `SIGSEGV`.
//!
//! Nothing of this is needed for sequences that are restarted, nor for those of
//! [`atomseq::percpu`], which the kernel aborts when another thread runs.

mod gate;
mod handler;
mod region;
mod userfault;

use std::{fmt, io};

use atomseq::signal;

pub use gate::Gate;
pub use handler::start;
pub use region::{Means, Pinned, Region};

/// Why there is no region, or why a page cannot be moved.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A handler was not installed.
    Handler(signal::Error),
    /// [`start`] has not been called, or with another signal.
    Start,
    /// There are as many regions as there may be.
    TooMany,
    /// The page is pinned.
    Pinned,
    /// The kernel refused a system call.
    Refused {
        /// The name of the call.
        call: &'static str,
        /// Its error.
        error: io::Error,
    },
}

impl Error {
    fn last(call: &'static str) -> Self {
        let error = io::Error::last_os_error();
        Self::Refused { call, error }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handler(error) => {
                write!(f, "a handler of page faults was not installed: {error}")
            }
            Self::Start => f.write_str("call paging::start first, with one signal in the process"),
            Self::TooMany => write!(f, "there are {} regions already", handler::REGIONS),
            Self::Pinned => f.write_str("the page is pinned: drop its guard first"),
            Self::Refused { call, error } => write!(f, "{call} failed: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// The smallest page of the architectures that have sections.
const SMALLEST_PAGE: usize = 4096;

/// Returns whether an object lies on one page, whatever the size of pages is: M94's rule, by which
/// a sequence faults at its first access to the object, or not at all.
///
/// An object of at most 4096 bytes that is aligned to its size, rounded up to a power of two, does.
pub const fn is_on_one_page(address: usize, bytes: usize) -> bool {
    bytes <= SMALLEST_PAGE && address % SMALLEST_PAGE + bytes <= SMALLEST_PAGE
}
