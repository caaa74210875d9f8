//! Test-and-set of `mutex/mechanism/`, as the checker sees it: flags of 32 bits, side by side, of one thread.

use atomseq::sequence::model::{Memory, Program};

use super::program;
use crate::layout::bulk;
use crate::structure::{Answer, Call, Content, Structure, answer, plain, truth};

mod sequences {
    atomseq::sequence! {
        /// What a holder does, in one store.
        pub(super) unsafe fn clear(flag: Word) {
            commit32(flag, 0);
        }
    }
}

/// Flags that are set by the form against handlers, and cleared.
pub struct Flags;

const FLAGS: usize = 8;
const BYTES: usize = 4;

fn at(flag: usize) -> usize {
    bulk(0) + BYTES * flag
}

/// Of no file of the library: a store that needs no protection, for the histories' sake.
const CLEAR: &Program = &sequences::clear::MODEL;

impl Structure for Flags {
    fn name(&self) -> &'static str {
        "mutex/signals"
    }

    fn cpus(&self) -> usize {
        1
    }

    fn bulk_bytes(&self) -> usize {
        FLAGS * BYTES
    }

    fn empty(&self) -> Memory {
        let mut memory = Memory::default();
        (0..FLAGS).for_each(|flag| memory.store_bytes(at(flag), 0, BYTES));
        memory
    }

    /// Anybody may set a flag; its holder clears it.
    fn calls(&self, memory: &Memory) -> Vec<Call> {
        let set = program("mutex/signals", "set");
        let mut calls: Vec<Call> = (0..FLAGS).map(|flag| Call::new(set, &[at(flag)])).collect();
        let held = (0..FLAGS).filter(|flag| memory.load_bytes(at(*flag), BYTES) != 0);
        calls.extend(held.map(|flag| Call::new(CLEAR, &[at(flag)])));
        calls
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        let flag = |flag| match memory.load_bytes(at(flag), BYTES) {
            value @ 0..=1 => Ok(vec![value]),
            other => Err(format!("flag {flag} is {other}")),
        };
        (0..FLAGS).map(flag).collect()
    }

    fn meaning(&self, content: &mut Content, call: &Call, _cpu: usize) -> Answer {
        let flag = &mut content[(call.words[0] - at(0)) / BYTES][0];
        match call.program.name {
            "set" => answer(truth(std::mem::replace(flag, 1) == 0)),
            "clear" => {
                *flag = 0;
                answer(plain(&[]))
            }
            other => panic!("what {other} means is not written down"),
        }
    }
}
