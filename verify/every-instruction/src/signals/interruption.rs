//! What arrives at an instruction, and in which orders it and the operation may then appear to have
//! run.

use super::order::Part;
use Interruption::{ForeignInClone, InClone, InForeign, InHandler, One, Two};

/// What arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// One managed signal, whose handler runs an interference.
    One(usize),
    /// Two managed signals, both pending.
    Two(usize, usize),
    /// A signal with a foreign handler, which sends a managed one.
    InForeign(usize),
    /// One managed signal, and another one in the clone.
    InClone(usize, usize),
    /// One managed signal, and in the clone a foreign one, whose handler sends another managed one.
    ForeignInClone(usize, usize),
    /// One managed signal, whose handler lets in another one in the middle of its own sequence.
    InHandler(usize, usize),
}

impl Interruption {
    /// For messages; `names` are the interferences'.
    pub fn describe(self, names: impl Fn(usize) -> &'static str) -> String {
        match self {
            One(first) => format!("interrupted by {}", names(first)),
            Two(first, second) => {
                format!(
                    "interrupted by {} and {} at once",
                    names(first),
                    names(second)
                )
            }
            InForeign(first) => {
                format!(
                    "interrupted by a foreign handler, and that by {}",
                    names(first)
                )
            }
            InClone(first, second) => {
                format!(
                    "interrupted by {}, and in its clone by {}",
                    names(first),
                    names(second)
                )
            }
            ForeignInClone(first, second) => format!(
                "interrupted by {}, in its clone by a foreign handler, and that by {}",
                names(first),
                names(second)
            ),
            InHandler(first, second) => {
                format!(
                    "interrupted by {}, and that by {}",
                    names(first),
                    names(second)
                )
            }
        }
    }

    /// The interferences' parts.
    pub fn parts(self) -> (Part, Option<Part>) {
        match self {
            One(first) | InForeign(first) => (Part::First(first), None),
            Two(first, second)
            | InClone(first, second)
            | ForeignInClone(first, second)
            | InHandler(first, second) => (Part::First(first), Some(Part::Second(second))),
        }
    }

    /// The orders that are right; `None` where either may be.
    pub fn orders(self, operation_first: Option<bool>) -> Vec<Vec<Part>> {
        let handlers = match self.parts() {
            (first, None) => vec![vec![first]],
            (first, Some(second)) => vec![vec![first, second], vec![second, first]],
        };
        let mut orders = Vec::new();
        for handlers in handlers {
            if operation_first != Some(true) {
                orders.push([&*handlers, &[Part::Operation]].concat());
            }
            if operation_first != Some(false) {
                orders.push([&[Part::Operation], &*handlers].concat());
            }
        }
        orders
    }
}
