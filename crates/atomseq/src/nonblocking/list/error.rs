//! Why an operation on a list did nothing.

use std::fmt;

use crate::sync::this_thread;
use crate::type_stable;

/// Somebody has [removed the entry for change](super::List::check_out), and has not yet put it
/// back.
///
/// Nothing waits for that, and in a signal handler nothing may: the handler may have interrupted
/// the very thread that is to put it back (GC96 5.1).
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

    /// Has this thread removed it, perhaps under the handler that asks? Then repeating the
    /// operation would never end.
    ///
    /// It may also be one that has ended with an entry in its hands and whose place in memory this
    /// thread has by now; then it would never end either.
    pub fn by_this_thread(&self) -> bool {
        self.by_this_thread
    }
}

impl fmt::Display for CheckedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.by_this_thread {
            "this thread has removed the entry for change: go on without it, for it cannot come back meanwhile"
        } else {
            "another thread has removed the entry for change: try again later, but never in a signal handler"
        })
    }
}

impl std::error::Error for CheckedOut {}

/// Why an entry was not put into a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The key is there.
    Present,
    /// The key is not there.
    Absent,
    /// The key is there, but somebody has removed it for change.
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
                f.write_str("the key is in the list: replace its value, or delete it first")
            }
            Refused::Absent => f.write_str("the key is not in the list: insert it"),
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
