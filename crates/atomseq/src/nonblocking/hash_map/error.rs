//! The errors of a compare-and-exchange, and of an insertion that returns the value.

use std::fmt;

use crate::nonblocking::list::Refused;
use crate::type_stable;

/// Why [`HashMap::compare_exchange`](super::HashMap::compare_exchange) changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Different<V> {
    /// The key has this value, or is not in the map.
    Value(Option<V>),
    /// There is no memory for a node.
    Memory(type_stable::Error),
}

impl<V> fmt::Display for Different<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Different::Value(_) => {
                f.write_str("the key has another value: retry with the value that was found")
            }
            Different::Memory(error) => error.fmt(f),
        }
    }
}

impl<V: fmt::Debug> std::error::Error for Different<V> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Different::Value(_) => None,
            Different::Memory(error) => Some(error),
        }
    }
}

/// Why [`RefHashMap::try_insert`](super::RefHashMap::try_insert), or
/// [`Ref::insert_behind`](crate::nonblocking::Ref::insert_behind), changed nothing. It returns the
/// value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NotInserted<V> {
    /// The value that was not inserted.
    pub value: V,
    /// Why it was not inserted.
    pub reason: Refused,
}

impl<V> fmt::Display for NotInserted<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<V> fmt::Debug for NotInserted<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotInserted")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<V> std::error::Error for NotInserted<V> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.reason.source()
    }
}
