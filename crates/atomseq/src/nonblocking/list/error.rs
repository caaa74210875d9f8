//! The errors of list operations.

use std::fmt;

use crate::sync::this_thread;
use crate::type_stable;

/// The error of an operation on an entry that is [checked out](super::List::check_out) and not
/// checked in yet.
///
/// No operation waits for the check-in. A signal handler must not wait for it either, because it
/// may have interrupted the thread that will check the entry in (GC96, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedOut {
    by_this_thread: bool,
}

impl CheckedOut {
    pub(super) fn by(changer: u64) -> CheckedOut {
        CheckedOut {
            by_this_thread: changer == this_thread(),
        }
    }

    /// Returns whether this thread has checked the entry out, possibly in code that the calling
    /// handler interrupted. If so, retrying the operation would never end.
    ///
    /// A thread that exited with an entry checked out may have had the same identity as this thread
    /// has now. The entry then never comes back either.
    pub fn by_this_thread(&self) -> bool {
        self.by_this_thread
    }
}

impl fmt::Display for CheckedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.by_this_thread {
            "this thread has checked the entry out: proceed without it, because it cannot be checked in meanwhile"
        } else {
            "another thread has checked the entry out: retry later, but never in a signal handler"
        })
    }
}

impl std::error::Error for CheckedOut {}

/// Why an entry was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The key is in the list.
    Present,
    /// The key, or the value to insert behind, is not in the list.
    Absent,
    /// The key is in the list, but its entry is checked out.
    CheckedOut(CheckedOut),
    /// There is no memory for a node, or the limit is reached.
    Memory(type_stable::Error),
}

impl From<CheckedOut> for Refused {
    fn from(checked_out: CheckedOut) -> Refused {
        Refused::CheckedOut(checked_out)
    }
}

impl From<type_stable::Error> for Refused {
    fn from(error: type_stable::Error) -> Refused {
        Refused::Memory(error)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Present => {
                f.write_str("the key is in the list: replace its value, or remove it first")
            }
            Refused::Absent => {
                f.write_str("the key, or the value to insert behind, is not in the list: insert it")
            }
            Refused::CheckedOut(checked_out) => checked_out.fmt(f),
            Refused::Memory(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Refused::Memory(error) => Some(error),
            _ => None,
        }
    }
}
