//! Stacks in arrays where the kernel helps: the sequences of `nonblocking/stack.rs` as data, and
//! the rest of the protocol, `dcas/shadow.rs`, step by step, under every order of steps,
//! interruptions and fences that few threads allow.
//!
//! What is checked, whatever the order:
//!
//! * each change that reaches its end does what it does to a sequential model at that time: a pop
//!   returns what the model's does;
//! * whenever the lock is free, the length and the cells in use are the model's;
//! * who is refused, and who asks for the length, is told what was so at some time in the call;
//! * from one in sixteen states that are reached, each thread alone comes to its end, whatever
//!   state the others were stopped in, unless one of them has locked the structure so that nobody
//!   can throw it out.
//!
//! The kernel is that of [`dcas`](crate::dcas). The version stays what it was when a holder is
//! thrown out, so no bound on versions is needed: a thread changes it once for each of its tasks.

mod search;
mod thread;

use std::collections::{BTreeMap, BTreeSet};

use atomseq::sequence::model::Program;

pub use search::check;
pub use thread::Task;

/// What protects, each to be switched off in turn.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A fence ends the sections on its CPUs.
    pub fence: bool,
    /// Who replaces a claim fences all CPUs; otherwise none, as if the one whose claim it was had
    /// done it.
    pub fence_for_claims: bool,
    /// A claim tells which call made it; otherwise all look alike.
    pub claim_by_call: bool,
    /// The lock is given back only if it is still one's own.
    pub free_own: bool,
    /// Who reads a state looks at the lock again.
    pub validate: bool,
    /// What puts a word in.
    pub put: &'static Program,
    /// What takes one out.
    pub take: &'static Program,
    /// The same two, also if it is another CPU's turn.
    pub put_anyway: &'static Program,
    /// See there.
    pub take_anyway: &'static Program,
    /// What frees the lock of a holder on the same CPU.
    pub free_here: &'static Program,
}

impl Rules {
    /// As in the library.
    pub fn library() -> Rules {
        Rules {
            fence: true,
            fence_for_claims: true,
            claim_by_call: true,
            free_own: true,
            validate: true,
            put: program("push"),
            take: program("pop"),
            put_anyway: program("push_anyway"),
            take_anyway: program("pop_anyway"),
            free_here: crate::dcas::program("free_here"),
        }
    }
}

/// What is tried.
#[derive(Clone, Debug)]
pub struct Setting {
    /// In a few words.
    pub name: &'static str,
    /// What it holds at first.
    pub words: Vec<usize>,
    /// What each thread does, one after the other.
    pub threads: Vec<Vec<Task>>,
    /// How often a thread is interrupted for no reason that is part of the model.
    pub interruptions: usize,
}

/// How many words fit.
pub const CAPACITY: usize = 2;

/// What was explored.
#[derive(Debug, Default)]
pub struct Explored {
    /// How many states.
    pub states: usize,
    /// How many sections were interrupted, by whatever.
    pub aborts: usize,
    /// How many changes reached their end.
    pub done: usize,
    /// How often somebody was refused, or read the length.
    pub read: usize,
    /// The ways out of each sequence that were taken: `None` is the end.
    pub ways_out: BTreeMap<&'static str, BTreeSet<Option<usize>>>,
}

/// The library's sequence of this name.
///
/// # Panics
///
/// If there is none.
fn program(name: &str) -> &'static Program {
    let mut all = atomseq::internals::NONBLOCKING_SEQUENCES
        .iter()
        .flat_map(|(_, programs)| programs.iter());
    all.find(|program| program.name == name)
        .unwrap_or_else(|| panic!("nonblocking has no sequence {name}"))
}

/// Where the lock and the states lie, and the cells.
const LOCK: usize = 0x1000;
const STATES: usize = LOCK + 8;
const CELLS: usize = 0x2000;

const VERSION: usize = 1 << 16;
const BELOW_VERSION: usize = 0xffff;
const FREE: usize = 0;
const HELD: usize = 1;
const CLAIM: usize = 2;
const LOCKED: usize = 3;

/// The state of a lock's word.
fn state(lock: usize) -> usize {
    lock >> 14 & 3
}

/// Where the state of the version in a lock's word lies.
fn side(lock: usize) -> usize {
    STATES + 8 * (lock / VERSION % 2)
}

/// The cell of the word that is so many from the bottom.
fn cell(place: usize) -> usize {
    CELLS + 8 * (place % CAPACITY)
}
