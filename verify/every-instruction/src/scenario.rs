//! What is interrupted by what, and the comparison with uninterrupted runs.
//!
//! For each instruction of each window that an operation reaches, and each interruption, the
//! operation runs once on a fresh structure. What it returned, what the interruption returned and
//! what the structure then holds must be what an uninterrupted run gives with the interruption
//! before the operation, or after it.

use verify_support::cpus::{Cpus, move_to};

/// Whatever an operation returns or a structure holds, as words to compare.
pub type Words = Vec<u64>;

/// A call of the public interface.
pub type Operation<S> = fn(&S) -> Words;

/// Makes a structure.
pub type Fresh<S> = fn() -> S;

/// An operation on a structure in some state, and what interrupts it.
pub struct Scenario<S: 'static> {
    /// The operation and the state, in a few words.
    pub name: String,
    /// Makes the structure, on the home CPU.
    pub fresh: Fresh<S>,
    /// What is interrupted: one call of the public interface, in a function of its own that is
    /// never inlined.
    pub operation: Operation<S>,
    /// What happens in between, by name.
    pub interferences: &'static [(&'static str, Operation<S>)],
    /// Whether the operation is one sequence. Of one that takes several, only that nothing is lost
    /// or doubled is asked: what it and the interference returned and what the structure holds,
    /// taken together, must be the same.
    pub whole: bool,
    /// Whether a signal handler may interfere anywhere in the operation, not only in its sequences.
    pub signal_safe: bool,
    /// All that the structure holds, by CPU where it is kept by CPU. Called last.
    pub content: Operation<S>,
    /// What of the content does not depend on whether an operation took the fast or the slow path.
    /// Called last.
    pub total: Operation<S>,
}

/// A checker that runs scenarios.
pub trait Check {
    /// Interrupts a scenario's operation in every way.
    fn check<S: 'static>(&mut self, scenario: &Scenario<S>);
}

/// What happens at the instruction; the numbers are indices into the interferences.
#[derive(Clone, Copy, Debug)]
pub enum Interruption {
    /// Nothing but the interruption.
    Nothing,
    /// The thread is moved to the other CPU and stays there.
    Move,
    /// An interference on the same CPU.
    Here(usize),
    /// An interference on the same CPU, then the thread is moved.
    HereThenMove(usize),
    /// The thread is moved, interferes there, and comes back.
    Elsewhere(usize),
}

impl Interruption {
    /// Whether another CPU takes part.
    pub fn moves(self) -> bool {
        !matches!(self, Interruption::Nothing | Interruption::Here(_))
    }
}

/// What a run gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What the operation returned.
    pub operation: Words,
    /// What the interference returned.
    pub interference: Words,
    /// What the structure then held.
    pub content: Words,
}

impl Outcome {
    /// All words together.
    fn sorted(&self) -> Words {
        let mut words = [&*self.operation, &*self.interference, &*self.content].concat();
        words.sort_unstable();
        words
    }
}

impl<S> Scenario<S> {
    /// All that can happen: on one CPU, or also with another.
    pub fn interruptions(&self, cpus: Cpus) -> Vec<Interruption> {
        let interferences = 0..self.interferences.len();
        let mut all = vec![Interruption::Nothing];
        all.extend(interferences.clone().map(Interruption::Here));
        if cpus.other.is_some() {
            // The first interference stands for all: what another CPU's slot sees does not depend
            // on which.
            let first = interferences.take(1);
            all.push(Interruption::Move);
            all.extend(first.clone().map(Interruption::HereThenMove));
            all.extend(first.map(Interruption::Elsewhere));
        }
        all
    }

    /// Lets it happen.
    pub fn interfere(&self, structure: &S, interruption: Interruption, cpus: Cpus) -> Words {
        let other = cpus.other.unwrap_or(cpus.home);
        let interference = |index: usize| (self.interferences[index].1)(structure);
        match interruption {
            Interruption::Nothing => Words::new(),
            Interruption::Move => {
                move_to(other);
                Words::new()
            }
            Interruption::Here(index) => interference(index),
            Interruption::HereThenMove(index) => {
                let words = interference(index);
                move_to(other);
                words
            }
            Interruption::Elsewhere(index) => {
                move_to(other);
                let words = interference(index);
                move_to(cpus.home);
                words
            }
        }
    }

    /// Uninterrupted runs: the interruption before the operation, and after it.
    pub fn serial(
        &self,
        interruption: Interruption,
        cpus: Cpus,
        content: Operation<S>,
    ) -> [Outcome; 2] {
        [true, false].map(|interruption_first| {
            move_to(cpus.home);
            let structure = (self.fresh)();
            let interfere = || self.interfere(&structure, interruption, cpus);
            let operate = || (self.operation)(&structure);
            let (operation, interference) = if interruption_first {
                let interference = interfere();
                (operate(), interference)
            } else {
                let operation = operate();
                (operation, interfere())
            };
            move_to(cpus.home);
            Outcome {
                operation,
                interference,
                content: content(&structure),
            }
        })
    }

    /// What is wrong with an outcome, if anything.
    pub fn judge(&self, outcome: &Outcome, serial: &[Outcome; 2]) -> Option<String> {
        let right = match self.whole {
            true => serial.contains(outcome),
            false => serial[0].sorted() == outcome.sorted(),
        };
        (!right).then(|| format!("{outcome:?} is neither {:?} nor {:?}", serial[0], serial[1]))
    }

    /// An interruption, for messages.
    pub fn describe(&self, interruption: Interruption) -> String {
        let interference = |index: usize| self.interferences[index].0;
        match interruption {
            Interruption::Nothing => "interrupted by nothing".to_string(),
            Interruption::Move => "moved to another CPU".to_string(),
            Interruption::Here(index) => format!("interrupted by {}", interference(index)),
            Interruption::HereThenMove(index) => format!(
                "interrupted by {}, then moved to another CPU",
                interference(index)
            ),
            Interruption::Elsewhere(index) => {
                format!("interrupted by {} on another CPU", interference(index))
            }
        }
    }
}

/// Operations by their names; an " and " says that there are several, one after the other.
pub type Named<S> = (&'static str, Operation<S>);

/// Checks each operation, in each state, interrupted by each interference.
pub(crate) fn each<S: 'static>(
    checker: &mut impl Check,
    states: &[(&str, Fresh<S>)],
    operations: &[Named<S>],
    interferences: &'static [Named<S>],
    content: Operation<S>,
) {
    for (state, fresh) in states {
        for (operation, call) in operations {
            checker.check(&Scenario {
                name: format!("{operation}, {state}"),
                fresh: *fresh,
                operation: *call,
                interferences,
                signal_safe: true,
                whole: true,
                content,
                total: content,
            });
        }
    }
}
