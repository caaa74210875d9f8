//! Sequences that are wrong, each in its own way.
//!
//! All but one compile: they keep every rule of `sequence!`, which cannot know the meaning of
//! memory. The checker must detect each of them; otherwise it could not fail.

mod arrays;
mod counters;
mod linked;
mod local;

use atomseq::sequence::model::{Memory, Program};

use crate::execution::Fault;
use crate::structure::{Answer, Call, Content, Recovery, Structure};

/// A structure with one of its sequences replaced by a wrong one, of the same name.
pub struct Broken {
    /// The fault of the sequence.
    pub why: &'static str,
    inner: Box<dyn Structure>,
    by: &'static Program,
    /// Maps the arguments of the correct sequence to those of the wrong one.
    words: fn(&[usize]) -> Vec<Vec<usize>>,
    /// The answer where the wrong sequence correctly does nothing.
    unless: Unless,
    /// Returns whether this is the fault that must be found.
    pub expected: fn(&Fault) -> bool,
}

type Unless = fn(&Content, &Call, usize) -> Option<Answer>;

impl Broken {
    fn new(
        why: &'static str,
        inner: impl Structure + 'static,
        by: &'static Program,
        expected: fn(&Fault) -> bool,
    ) -> Broken {
        Broken::of(why, Box::new(inner), by, expected)
    }

    /// Returns the structure with the sequence of that name replaced.
    pub fn of(
        why: &'static str,
        inner: Box<dyn Structure>,
        by: &'static Program,
        expected: fn(&Fault) -> bool,
    ) -> Broken {
        Broken {
            why,
            inner,
            by,
            words: |words| vec![words.to_vec()],
            unless: |_, _, _| None,
            expected,
        }
    }

    fn with_words(self, words: fn(&[usize]) -> Vec<Vec<usize>>) -> Broken {
        Broken { words, ..self }
    }

    fn unless(self, unless: Unless) -> Broken {
        Broken { unless, ..self }
    }
}

/// Returns every wrong sequence.
pub fn all() -> Vec<Broken> {
    let mut all = counters::counters();
    all.extend(linked::lists());
    all.extend(local::structures());
    all.extend(counters::flags_and_homes());
    all.extend(linked::queues());
    all.extend(local::recovery());
    all.extend(arrays::rings());
    all.extend(arrays::stacks());
    all
}

impl Structure for Broken {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn cpus(&self) -> usize {
        self.inner.cpus()
    }

    fn bulk_bytes(&self) -> usize {
        self.inner.bulk_bytes()
    }

    fn nodes(&self) -> std::ops::Range<usize> {
        self.inner.nodes()
    }

    fn longest_history(&self) -> usize {
        self.inner.longest_history()
    }

    fn recovery(&self, program: &Program) -> Recovery {
        self.inner.recovery(program)
    }

    fn empty(&self) -> Memory {
        self.inner.empty()
    }

    fn calls(&self, memory: &Memory) -> Vec<Call> {
        let mut calls = Vec::new();
        for call in self.inner.calls(memory) {
            if call.program.name != self.by.name {
                calls.push(call);
                continue;
            }
            for passed in (self.words)(&call.words) {
                calls.push(Call {
                    program: self.by,
                    passed,
                    ..call.clone()
                });
            }
        }
        calls
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        self.inner.content(memory)
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        if std::ptr::eq(call.program, self.by) {
            if let Some(answer) = (self.unless)(content, call, cpu) {
                return answer;
            }
        }
        self.inner.meaning(content, call, cpu)
    }
}
