//! What a checker reports: how much it explored, and what it found wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use atomseq::sequence::model::Span;

use crate::structure::{Answer, Content};

/// How much was explored.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// Different memories between attempts.
    pub states: usize,
    /// Attempts that ran to their end.
    pub attempts: usize,
    /// Aborts: one before each step of each attempt but its first.
    pub aborts: usize,
    /// Interruptions that waited for the end: one before each step of each attempt but its first.
    pub rollforwards: usize,
    /// Pairs of an attempt and a neighbour's that could have met.
    pub neighbours: usize,
    /// Those of them that touch common memory, tried in every order.
    pub meetings: usize,
    /// The longest history: how many calls in a row led to a state that no shorter one leads to.
    pub history: usize,
    /// No longer history leads anywhere new.
    pub exhausted: bool,
    /// The ways out that each sequence took, by its name: its exits by number, `None` the commit.
    pub ways_out: BTreeMap<&'static str, BTreeSet<Option<usize>>>,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} states{}, {} attempts, {} aborts, {} rollforwards, {} pairs of neighbours ({} met), histories of {} calls",
            self.states,
            if self.exhausted {
                " (all there are)"
            } else {
                ""
            },
            self.attempts,
            self.aborts,
            self.rollforwards,
            self.neighbours,
            self.meetings,
            self.history,
        )
    }
}

/// What a checker found out about a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "`expected`, `found`, `before`, `after` say it")]
pub enum Fault {
    /// Its only commit is not its last step.
    Shape,
    /// A step touches memory that is not the structure's, or not aligned.
    Outside(Span),
    /// It does not end.
    Endless,
    /// Somebody could see a change before the commit.
    VisibleBeforeCommit { before: Content, after: Content },
    /// The memory is no state of the structure any more.
    Broken(String),
    /// The content afterwards is not that of any serial order.
    WrongContent { expected: Content, found: Content },
    /// The answer is not that of any serial order.
    WrongAnswer { expected: Answer, found: Answer },
}

/// A fault and how to get there.
#[derive(Clone, Debug)]
pub struct Violation {
    /// What is wrong.
    pub fault: Fault,
    /// What happened up to there, an event a line.
    pub trace: Vec<String>,
    /// What was explored before it was found.
    pub explored: Explored,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for event in &self.trace {
            writeln!(f, "  {event}")?;
        }
        write!(f, "  => {:?}", self.fault)
    }
}
