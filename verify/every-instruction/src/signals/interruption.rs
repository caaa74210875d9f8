//! The signals that arrive at an instruction, and the orders in which they and the operation may
//! appear to have run, with the outcome of each.

use Interruption::{ForeignInClone, InClone, InForeign, InHandler, One, Two};

use crate::scenario::{Scenario, Words};

/// The signals that arrive.
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
    /// One managed signal, whose handler unblocks another one in the middle of its own sequence.
    InHandler(usize, usize),
}

impl Interruption {
    /// Describes the interruption, for messages; `names` returns the interferences' names.
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

    /// Returns the interferences' parts.
    pub fn parts(self) -> (Part, Option<Part>) {
        match self {
            One(first) | InForeign(first) => (Part::First(first), None),
            Two(first, second)
            | InClone(first, second)
            | ForeignInClone(first, second)
            | InHandler(first, second) => (Part::First(first), Some(Part::Second(second))),
        }
    }

    /// Returns the correct orders; `None` allows either.
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

/// A part that appears to run atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The operation.
    Operation,
    /// The interference of the first signal, by its index.
    First(usize),
    /// The interference of the second signal, by its index.
    Second(usize),
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The operation's result.
    pub operation: Words,
    /// The first interference's result.
    pub first: Words,
    /// The second interference's result.
    pub second: Words,
    /// The structure's content afterwards.
    pub content: Words,
}

impl Outcome {
    /// Returns all words together, sorted.
    fn sorted(&self) -> Words {
        let mut words = [
            &*self.operation,
            &*self.first,
            &*self.second,
            &*self.content,
        ]
        .concat();
        words.sort_unstable();
        words
    }
}

/// Runs the parts one after the other, uninterrupted.
pub fn serial<S>(scenario: &Scenario<S>, parts: &[Part]) -> Outcome {
    let structure = (scenario.fresh)();
    let mut outcome = Outcome::default();
    for part in parts {
        match *part {
            Part::Operation => outcome.operation = (scenario.operation)(&structure),
            Part::First(index) => outcome.first = (scenario.interferences[index].1)(&structure),
            Part::Second(index) => outcome.second = (scenario.interferences[index].1)(&structure),
        }
    }
    outcome.content = (scenario.content)(&structure);
    outcome
}

/// Returns which of the serial outcomes this is. For an operation of several sequences, only loss
/// and duplication are checked.
pub fn matching(outcome: &Outcome, serial: &[Outcome], whole: bool) -> Option<usize> {
    serial.iter().position(|right| match whole {
        true => right == outcome,
        false => right.sorted() == outcome.sorted(),
    })
}
