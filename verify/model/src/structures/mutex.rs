//! Test-and-set of `mutex/` as the checker sees it: adjacent flags of 32 bits of one thread, and
//! flags with homes.

use atomseq::sequence::model::{Memory, Program};

use super::{program, zeroed};
use crate::layout::{bulk, word};
use crate::structure::{Answer, Call, Content, Structure, answer, plain, truth};

mod sequences {
    atomseq::sequence! {
        /// A holder's release, in one store.
        pub(super) unsafe fn clear(flag: Word) {
            commit32(flag, 0);
        }

        /// The release of a flag with a home, by a holder on its home CPU.
        pub(super) unsafe fn release(flag: Word) -> bool {
            let here = cpu();
            let home = load_acquire(flag);
            if here != home { return false }
            commit_release(flag + 8, 0);
            true
        }
    }
}

/// Flags that are set by the signal-atomic form, and cleared.
pub struct Flags;

const FLAGS: usize = 8;
const BYTES: usize = 4;

fn at(flag: usize) -> usize {
    bulk(0) + BYTES * flag
}

/// A store that needs no protection and is in no file of the library; the histories need it.
const CLEAR: &Program = &sequences::clear::MODEL;

impl Structure for Flags {
    fn name(&self) -> &'static str {
        "mutex/mechanism"
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

    /// Any caller may set a flag; its holder clears it.
    fn calls(&self, memory: &Memory) -> Vec<Call> {
        let set = program("mutex/mechanism", "set");
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
            other => panic!("the meaning of {other} is not defined"),
        }
    }
}

/// Flags with homes, two on each of three CPUs, and two without a home. Changes of a home are not
/// part of this model, because no attempt is in progress then: `tests/protocols/homes.rs` covers
/// them.
pub struct Homes;

const CPUS: usize = 3;
const HOMES: [usize; 8] = [0, 0, 1, 1, 2, 2, 1 << 62, CPUS];
const WORDS: usize = 16;

fn flag_at(flag: usize) -> usize {
    bulk(0) + WORDS * flag
}

const RELEASE: &Program = &sequences::release::MODEL;

impl Structure for Homes {
    fn name(&self) -> &'static str {
        "mutex/home"
    }

    fn cpus(&self) -> usize {
        CPUS
    }

    fn bulk_bytes(&self) -> usize {
        WORDS * HOMES.len()
    }

    fn empty(&self) -> Memory {
        let mut memory = Memory::default();
        for (flag, home) in HOMES.into_iter().enumerate() {
            memory.store(flag_at(flag), home);
            memory.store(flag_at(flag) + 8, 0);
        }
        memory
    }

    /// Any caller may try; the holder clears the flag. (`tests/protocols/homes.rs` covers holders
    /// on other CPUs.)
    fn calls(&self, memory: &Memory) -> Vec<Call> {
        let take = program("mutex/home", "take");
        let flags = 0..HOMES.len();
        let mut calls: Vec<Call> = flags
            .clone()
            .map(|flag| Call::new(take, &[flag_at(flag)]))
            .collect();
        let held = flags.filter(|flag| memory.load(flag_at(*flag) + 8) != 0);
        calls.extend(held.map(|flag| Call::new(RELEASE, &[flag_at(flag)])));
        calls
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        let flag = |(flag, home)| {
            let (found, held) = (memory.load(flag_at(flag)), memory.load(flag_at(flag) + 8));
            match held {
                0..=1 if found == home => Ok(held),
                _ => Err(format!("flag {flag} is {held}, its home {found}")),
            }
        };
        // In one row: they belong to no CPU except by their homes.
        let row: Result<Vec<usize>, String> = HOMES.into_iter().enumerate().map(flag).collect();
        Ok(vec![row?])
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        let flag = (call.words[0] - flag_at(0)) / WORDS;
        let held = &mut content[0][flag];
        match call.program.name {
            "take" if HOMES[flag] == cpu => answer(truth(std::mem::replace(held, 1) == 0)),
            "take" => answer(truth(false)),
            "release" if HOMES[flag] == cpu => {
                *held = 0;
                answer(truth(true))
            }
            "release" => answer(truth(false)),
            other => panic!("the meaning of {other} is not defined"),
        }
    }
}

/// The counts of readers on three CPUs, and three states, of which only one lets readers enter.
/// (`tests/protocols/readers.rs` covers writers.)
pub struct Readers;

const READERS_CPUS: usize = 3;
const STATES: usize = 3;

fn state_at(state: usize) -> usize {
    bulk(0) + 8 * state
}

impl Structure for Readers {
    fn name(&self) -> &'static str {
        "mutex/rwlock"
    }

    fn cpus(&self) -> usize {
        READERS_CPUS
    }

    fn bulk_bytes(&self) -> usize {
        8 * STATES
    }

    /// Counts of single CPUs may wrap around, and return to an earlier state only after as many.
    fn longest_history(&self) -> usize {
        5
    }

    fn empty(&self) -> Memory {
        let mut memory = zeroed(READERS_CPUS, 1);
        (0..STATES).for_each(|state| memory.store(state_at(state), state));
        memory
    }

    fn calls(&self, _memory: &Memory) -> Vec<Call> {
        let enter = program("mutex/rwlock", "enter");
        let mut calls: Vec<Call> = (0..STATES)
            .map(|state| Call::new(enter, &[state_at(state)]))
            .collect();
        calls.push(Call::new(program("mutex/rwlock", "leave"), &[]));
        calls
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        let states = (0..STATES).map(|state| memory.load(state_at(state)));
        if !states.eq(0..STATES) {
            return Err("a reader has changed the state".to_owned());
        }
        let counts = (0..READERS_CPUS).map(|cpu| vec![memory.load(word(cpu, 0))]);
        Ok(counts.collect())
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        let count = &mut content[cpu][0];
        match call.program.name {
            "enter" => {
                let enters = call.words[0] == state_at(0);
                *count = count.wrapping_add(enters.into());
                answer(truth(enters))
            }
            "leave" => {
                *count = count.wrapping_sub(1);
                answer(plain(&[]))
            }
            other => panic!("the meaning of {other} is not defined"),
        }
    }
}
