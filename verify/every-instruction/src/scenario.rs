//! Operations, the interferences that interrupt them, and the comparison with uninterrupted runs.
//!
//! For each instruction of each window that an operation reaches, and each interruption, the
//! operation runs once on a fresh structure. The results of the operation and the interference, and
//! the structure's final content, must be those of an uninterrupted run with the interference
//! before the operation, or after it.

use verify_support::cpus::{Cpus, move_to};

/// The result of an operation or the content of a structure, as words to compare.
pub type Words = Vec<u64>;

/// A call of the public interface.
pub type Operation<S> = fn(&S) -> Words;

/// Makes a structure.
pub type Fresh<S> = fn() -> S;

/// An operation on a structure in some state, and what interrupts it.
pub struct Scenario<S: 'static> {
    /// A short name of the operation and the state.
    pub name: String,
    /// Makes the structure, on the home CPU.
    pub fresh: Fresh<S>,
    /// The operation to interrupt: one call of the public interface, in a function of its own that
    /// is never inlined.
    pub operation: Operation<S>,
    /// The interferences by name.
    pub interferences: &'static [(&'static str, Operation<S>)],
    /// Whether the operation is one sequence. For an operation of several sequences, only loss and
    /// duplication are checked: the results of the operation and the interference and the
    /// structure's content, taken together, must be the same.
    pub whole: bool,
    /// Whether a signal handler may interfere anywhere in the operation, not only in its sequences.
    pub signal_safe: bool,
    /// Returns the whole content, by CPU where it is kept by CPU. Called last.
    pub content: Operation<S>,
    /// Returns the part of the content that is the same on the fast and the slow path. Called last.
    pub total: Operation<S>,
}

/// A checker that runs scenarios.
pub trait Check {
    /// Interrupts a scenario's operation in every way.
    fn check<S: 'static>(&mut self, scenario: &Scenario<S>);
}

/// The action at the instruction; the numbers are indices into the interferences.
#[derive(Clone, Copy, Debug)]
pub enum Interruption {
    /// No action: only the trap itself.
    Nothing,
    /// The thread is moved to the other CPU and stays there.
    Move,
    /// An interference on the same CPU.
    Here(usize),
    /// An interference on the same CPU, then the thread is moved.
    HereThenMove(usize),
    /// The thread is moved, interferes there, and moves back.
    Elsewhere(usize),
}

impl Interruption {
    /// Returns whether another CPU takes part.
    pub fn moves(self) -> bool {
        !matches!(self, Interruption::Nothing | Interruption::Here(_))
    }
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The operation's result.
    pub operation: Words,
    /// The interference's result.
    pub interference: Words,
    /// The structure's content afterwards.
    pub content: Words,
}

impl Outcome {
    /// Returns all words together, sorted.
    fn sorted(&self) -> Words {
        let mut words = [&*self.operation, &*self.interference, &*self.content].concat();
        words.sort_unstable();
        words
    }
}

impl<S> Scenario<S> {
    /// Returns all interruptions, on one CPU or also with another.
    pub fn interruptions(&self, cpus: Cpus) -> Vec<Interruption> {
        let interferences = 0..self.interferences.len();
        let mut all = vec![Interruption::Nothing];
        all.extend(interferences.clone().map(Interruption::Here));
        if cpus.other.is_some() {
            // The first interference stands for all: its effect on another CPU's slot does not
            // depend on which it is.
            let first = interferences.take(1);
            all.push(Interruption::Move);
            all.extend(first.clone().map(Interruption::HereThenMove));
            all.extend(first.map(Interruption::Elsewhere));
        }
        all
    }

    /// Performs the interruption's action.
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

    /// Runs uninterrupted, with the interruption before the operation, and after it.
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

    /// Returns a description of what is wrong with an outcome, if anything.
    pub fn judge(&self, outcome: &Outcome, serial: &[Outcome; 2]) -> Option<String> {
        let right = match self.whole {
            true => serial.contains(outcome),
            false => serial[0].sorted() == outcome.sorted(),
        };
        (!right).then(|| format!("{outcome:?} is neither {:?} nor {:?}", serial[0], serial[1]))
    }

    /// Describes an interruption, for messages.
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

/// Operations by name; " and " in a name means several operations, one after the other.
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
