//! OS-assisted DCAS: the sequences of `dcas/assisted/` as data, and the rest of the protocol step
//! by step, under every order of steps, interruptions and fences that few threads and versions
//! allow.
//!
//! What is checked, whatever the order:
//!
//! * an exchange that reaches its end had both old values before it, and one that found a change
//!   had not;
//! * whenever the lock is free, the words are what the exchanges so far have made of them;
//! * a reader's words are those of one time.
//!
//! The kernel, as far as it matters here: a section is over when its thread is interrupted anywhere
//! in it; when another thread runs on its CPU; and when a fence reaches that CPU. A thread may be
//! on another CPU whenever it begins a section, and may stop for ever between two steps.

mod search;
mod thread;

use std::collections::{BTreeMap, BTreeSet};

use atomseq::sequence::model::Program;

pub use search::check;
pub use thread::Task;
pub(crate) use {
    search::fingerprint,
    thread::{advance, exchange},
};

/// What protects, each to be switched off in turn.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A fence ends the sections on its CPUs.
    pub fence: bool,
    /// What has been logged is undone.
    pub roll_back: bool,
    /// A claim tells which call made it; otherwise on which CPU it was made.
    pub claim_by_call: bool,
    /// A reader looks at the lock again.
    pub validate: bool,
    /// The exchange, and what undoes it.
    pub exchange: &'static Program,
    /// The exchange that compares the version.
    pub store_pair_if: &'static Program,
    /// What undoes either.
    pub undoing: &'static Program,
    /// What does so on the CPU of the one that it undoes.
    pub roll_back_here: &'static Program,
    /// What frees the lock there, if there is nothing to roll back.
    pub free_here: &'static Program,
}

impl Rules {
    /// As in the library.
    pub fn all() -> Rules {
        Rules {
            fence: true,
            roll_back: true,
            claim_by_call: true,
            validate: true,
            exchange: program("exchange"),
            store_pair_if: program("store_pair_if"),
            undoing: program("roll_back"),
            roll_back_here: program("roll_back_here"),
            free_here: program("free_here"),
        }
    }
}

/// What is tried.
#[derive(Clone, Debug)]
pub struct Setting {
    /// In a few words.
    pub name: &'static str,
    /// What each thread does.
    pub tasks: Vec<Task>,
    /// How many CPUs there are.
    pub cpus: usize,
    /// The versions go no further.
    pub versions: usize,
    /// How often a thread is interrupted for no reason that is part of the model.
    pub interruptions: usize,
}

/// What was explored.
#[derive(Debug, Default)]
pub struct Explored {
    /// How many states.
    pub states: usize,
    /// How many sections were interrupted, by whatever.
    pub aborts: usize,
    /// How many exchanges reached their end.
    pub done: usize,
    /// How many undoing sections did.
    pub undone: usize,
    /// The ways out of each sequence that were taken: `None` is the end.
    pub ways_out: BTreeMap<&'static str, BTreeSet<Option<usize>>>,
}

/// The library's sequence of this name.
///
/// # Panics
///
/// If there is none.
pub fn program(name: &str) -> &'static Program {
    let mut all = atomseq::internals::DCAS_SEQUENCES
        .iter()
        .flat_map(|(_, programs)| programs.iter());
    all.find(|program| program.name == name)
        .unwrap_or_else(|| panic!("dcas has no sequence {name}"))
}

/// Where the lock and the log lie, and the words.
pub(crate) const LINE: usize = 0x1000;
pub(crate) const FIRST: usize = 0x2000;
pub(crate) const SECOND: usize = 0x3000;

pub(crate) const VERSION: usize = 1 << 16;
pub(crate) const BELOW_VERSION: usize = 0xffff;
pub(crate) const HELD: usize = 1;
pub(crate) const CLAIM: usize = 2;

/// The state of a lock's word.
pub(crate) fn state(lock: usize) -> usize {
    lock >> 14 & 3
}
