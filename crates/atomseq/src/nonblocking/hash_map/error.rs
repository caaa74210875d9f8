//! The error of a compare-and-exchange.

use std::fmt;

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
