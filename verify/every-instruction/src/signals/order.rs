//! In which orders an operation and what interrupts it may appear to have run, and what each of
//! them gives.

use crate::scenario::{Scenario, Words};

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
