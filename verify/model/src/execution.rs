//! Steps one call on one CPU, and judges its result.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use atomseq::sequence::model::{Attempt, Memory, Parameter, Span, Step};

use crate::layout::{self, GARBAGE};
use crate::structure::{Answer, Call, Content, Structure};

/// More steps than any sequence takes, copies included.
const LONGEST: usize = 1000;

/// An attempt at a call, and the memory on which it works.
#[derive(Clone)]
pub struct Execution<'a> {
    structure: &'a dyn Structure,
    /// The call.
    pub call: &'a Call,
    /// The CPU on which it runs.
    pub cpu: usize,
    /// The memory on which it works.
    pub memory: Memory,
    /// The number of steps made.
    pub steps: usize,
    /// The addresses that it has touched.
    pub footprint: Footprint,
    attempt: Attempt,
}

/// The addresses that an attempt has read and written.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    reads: Vec<Span>,
    writes: Vec<Span>,
}

impl<'a> Execution<'a> {
    /// Returns an attempt before its first step.
    pub fn new(
        structure: &'a dyn Structure,
        call: &'a Call,
        cpu: usize,
        memory: Memory,
    ) -> Execution<'a> {
        let mut words = call.passed.iter();
        let arguments: Vec<usize> = call
            .program
            .parameters
            .iter()
            .map(|parameter| match parameter {
                Parameter::Slot(_) => layout::slot(cpu),
                Parameter::Word(_) => *words.next().expect("a word for each parameter"),
            })
            .collect();
        assert!(words.next().is_none(), "more words than parameters");
        Execution {
            structure,
            call,
            cpu,
            memory,
            steps: 0,
            footprint: Footprint::default(),
            attempt: Attempt::new(call.program, &arguments),
        }
    }

    /// Returns whether the only visible store is the last step (B91 2.4), which every restartable
    /// sequence must satisfy.
    pub fn has_its_commit_last(&self) -> bool {
        let is_commit = |step: &&Step| matches!(step, Step::Commit { .. });
        let steps = self.call.program.steps;
        steps.iter().filter(is_commit).count() == 1
            && steps.last().is_some_and(|step| is_commit(&step))
    }

    /// Returns whether the attempt has committed or left early.
    pub fn is_over(&self) -> bool {
        self.attempt.outcome().is_some()
    }

    /// Returns the exit that the next step takes; `None` for the commit.
    pub fn next_exit(&self) -> Option<usize> {
        match self.attempt.next(self.call.program) {
            Some(Step::Exit { exit, .. }) => Some(exit),
            _ => None,
        }
    }

    /// Makes one step, or fails if that would touch memory outside the structure.
    pub fn step(&mut self) -> Result<(), Fault> {
        if self.steps == LONGEST {
            return Err(Fault::Endless);
        }
        let (read, written) = self.attempt.touches(self.call.program);
        for span in [read, written].into_iter().flatten() {
            let (cpus, bulk_bytes) = (self.structure.cpus(), self.structure.bulk_bytes());
            let mapped = layout::is_mapped(span.address, cpus, bulk_bytes);
            if !mapped || span.address % span.bytes != 0 {
                return Err(Fault::Outside(span));
            }
        }
        if let Some(span) = written.filter(|span| span.address >= layout::CALLERS) {
            let asked = self.call.fills.contains(&span.address);
            if !asked && !self.structure.nodes().contains(&span.address) {
                return Err(Fault::Outside(span));
            }
        }
        self.footprint.reads.extend(read);
        self.footprint.writes.extend(written);
        self.attempt
            .step(self.call.program, &mut self.memory, self.cpu);
        self.steps += 1;
        Ok(())
    }

    /// Runs to the end and judges the result.
    pub fn finish(mut self, content: &Content) -> Result<Memory, Fault> {
        while !self.is_over() {
            self.step()?;
        }
        self.judge(content)
    }

    /// Checks that no other call can have observed a change: the content is still the old one.
    pub fn is_unseen(&self, content: &Content) -> Result<(), Fault> {
        unchanged(self.structure, &self.memory, content)
    }

    /// Judges a completed attempt by its call's meaning for the content before it; returns the
    /// memory that it leaves.
    pub fn judge(mut self, content: &Content) -> Result<Memory, Fault> {
        let mut expected_content = content.clone();
        let expected = self
            .structure
            .meaning(&mut expected_content, self.call, self.cpu);
        let outcome = self.attempt.outcome();
        let found = Answer {
            value: outcome.expect("only called at the end").clone(),
            filled: (0..expected.filled.len())
                .map(|index| self.memory.load(self.call.fills.start + 8 * index))
                .collect(),
        };
        let found_content = self
            .structure
            .content(&self.memory)
            .map_err(Fault::Broken)?;
        if found_content != expected_content {
            return Err(Fault::WrongContent {
                expected: expected_content,
                found: found_content,
            });
        }
        if found != expected {
            return Err(Fault::WrongAnswer { expected, found });
        }
        forget(self.call, &mut self.memory);
        Ok(self.memory)
    }

    /// Returns the number of prepared stores, which an abort now would leave behind.
    pub fn prepared(&self) -> usize {
        self.attempt.prepared().len()
    }

    /// Returns the memory that an abort now would leave: with the prepared words as they are, or
    /// with garbage in their place.
    pub fn aborted(&self, content: &Content, garbage: bool) -> Result<Memory, Fault> {
        let mut left = self.memory.clone();
        if garbage {
            for span in self.attempt.prepared() {
                left.store_bytes(span.address, GARBAGE, span.bytes);
            }
        }
        unchanged(self.structure, &left, content)?;
        Ok(left)
    }
}

impl Footprint {
    /// Returns whether neither writes what the other touches, so that their order makes no
    /// difference.
    pub fn is_apart_from(&self, other: &Footprint) -> bool {
        let meet = |these: &[Span], those: &[Span]| {
            these
                .iter()
                .any(|this| those.iter().any(|that| overlap(this, that)))
        };
        !meet(&self.writes, &other.writes)
            && !meet(&self.writes, &other.reads)
            && !meet(&self.reads, &other.writes)
    }
}

fn overlap(a: &Span, b: &Span) -> bool {
    a.address < b.address + b.bytes && b.address < a.address + a.bytes
}

fn unchanged(structure: &dyn Structure, memory: &Memory, content: &Content) -> Result<(), Fault> {
    let after = structure.content(memory).map_err(Fault::Broken)?;
    if after == *content {
        return Ok(());
    }
    Err(Fault::VisibleBeforeCommit {
        before: content.clone(),
        after,
    })
}

/// Clears the caller's buffer, which is not a part of the state.
fn forget(call: &Call, memory: &mut Memory) {
    for address in call.fills.clone().step_by(8) {
        memory.store(address, 0);
    }
}

// A checker's report: how much it explored, and the violation that it found.

/// The extent of an exploration.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// Distinct memories between attempts.
    pub states: usize,
    /// Attempts that ran to their end.
    pub attempts: usize,
    /// Aborts: one before each step of each attempt except its first.
    pub aborts: usize,
    /// Interruptions deferred to the end: one before each step of each attempt except its first.
    pub rollforwards: usize,
    /// Pairs of an attempt and a neighbour's that could be concurrent.
    pub neighbours: usize,
    /// Pairs that touch common memory, tried in every order.
    pub meetings: usize,
    /// The longest history: the number of calls in a row that lead to a state which no shorter
    /// history reaches.
    pub history: usize,
    /// Whether no longer history reaches a new state.
    pub exhausted: bool,
    /// The exits that each sequence took, by its name; `None` is the commit.
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

/// A fault that a checker found in a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "`expected`, `found`, `before`, `after` say it")]
pub enum Fault {
    /// The commit is not the last step, or not the only one.
    Shape,
    /// A step touches memory that is not the structure's, or not aligned.
    Outside(Span),
    /// It does not end.
    Endless,
    /// Another call could observe a change before the commit.
    VisibleBeforeCommit { before: Content, after: Content },
    /// The memory is no valid state of the structure any more.
    Broken(String),
    /// The content afterwards is not that of any serial order.
    WrongContent { expected: Content, found: Content },
    /// The answer is not that of any serial order.
    WrongAnswer { expected: Answer, found: Answer },
}

/// A fault and the history that leads to it.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The fault.
    pub fault: Fault,
    /// The history, one event a line.
    pub trace: Vec<String>,
    /// The extent of the exploration until then.
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
