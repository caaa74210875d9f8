//! What arrives at an instruction, and in which orders it and the operation may then appear to have
//! run.
//!
//! In which orders an operation and what interrupts it may appear to have run, and what each of
//! them gives.

use Interruption::{ForeignInClone, InClone, InForeign, InHandler, One, Two};

use crate::scenario::{Scenario, Words};

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

/// Something that runs as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The operation.
    Operation,
    /// The interference of the first signal, by its index.
    First(usize),
    /// That of the second one.
    Second(usize),
}

/// What a run gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What the operation returned.
    pub operation: Words,
    /// What the first interference returned.
    pub first: Words,
    /// What the second one returned.
    pub second: Words,
    /// What the structure then held.
    pub content: Words,
}

impl Outcome {
    /// All words together.
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

/// Which of the serial outcomes it is; of an operation that takes several sequences, only that
/// nothing is lost or doubled is asked.
pub fn matching(outcome: &Outcome, serial: &[Outcome], whole: bool) -> Option<usize> {
    serial.iter().position(|right| match whole {
        true => right == outcome,
        false => right.sorted() == outcome.sorted(),
    })
}
