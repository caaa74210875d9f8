//! One call on one CPU, stepped and judged.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use atomseq::sequence::model::{Attempt, Memory, Parameter, Span, Step};

use crate::layout::{self, GARBAGE};
use crate::structure::{Answer, Call, Content, Structure};

/// More steps than any sequence has, with its copies.
const LONGEST: usize = 1000;

/// An attempt at a call, and the memory it works on.
#[derive(Clone)]
pub struct Execution<'a> {
    structure: &'a dyn Structure,
    /// What is called.
    pub call: &'a Call,
    /// Where it runs.
    pub cpu: usize,
    /// What it works on.
    pub memory: Memory,
    /// How many steps it has made.
    pub steps: usize,
    /// What it has touched.
    pub footprint: Footprint,
    attempt: Attempt,
}

/// What an attempt has read and written.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    reads: Vec<Span>,
    writes: Vec<Span>,
}

impl<'a> Execution<'a> {
    /// A fresh attempt.
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

    /// B91 2.4: one visible store, the last step. It must hold of what is restarted.
    pub fn has_its_commit_last(&self) -> bool {
        let is_commit = |step: &&Step| matches!(step, Step::Commit { .. });
        let steps = self.call.program.steps;
        steps.iter().filter(is_commit).count() == 1
            && steps.last().is_some_and(|step| is_commit(&step))
    }

    /// Has it committed or left early?
    pub fn is_over(&self) -> bool {
        self.attempt.outcome().is_some()
    }

    /// The exit it takes if its next step leaves, `None` for the commit.
    pub fn next_exit(&self) -> Option<usize> {
        match self.attempt.next(self.call.program) {
            Some(Step::Exit { exit, .. }) => Some(exit),
            _ => None,
        }
    }

    /// Makes one step, unless it would touch what it must not.
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

    /// Runs to the end and judges.
    pub fn finish(mut self, content: &Content) -> Result<Memory, Fault> {
        while !self.is_over() {
            self.step()?;
        }
        self.judge(content)
    }

    /// Nobody may have seen anything before the end.
    pub fn is_unseen(&self, content: &Content) -> Result<(), Fault> {
        unchanged(self.structure, &self.memory, content)
    }

    /// Judges an attempt that is over by what its call means to the content before it; returns the
    /// memory it leaves.
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

    /// How many stores an abort now would leave behind.
    pub fn prepared(&self) -> usize {
        self.attempt.prepared().len()
    }

    /// The memory that an abort now would leave: what was prepared, as it is or as garbage.
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
    /// Does neither write what the other touches? Then their order makes no difference.
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

/// The caller's buffer is its own business once the call is over.
fn forget(call: &Call, memory: &mut Memory) {
    for address in call.fills.clone().step_by(8) {
        memory.store(address, 0);
    }
}

// What a checker reports: how much it explored, and what it found wrong.

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
