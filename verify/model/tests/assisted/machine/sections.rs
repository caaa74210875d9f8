//! Sections, run as data on the machine, one memory access a step.

use std::sync::atomic::{AtomicU64 as Real, Ordering};

use atomseq::sequence::Closed;
use atomseq::sequence::model::{Attempt, Memory, Outcome, Program, Shape, Value};
use shuttle::rand::Rng;

use super::{check, count, current_cpu, step, with};

/// How often a section restarts, or an exchange is retried after an abort, before its thread locks
/// instead.
const RESTARTS: usize = 2;

/// The library's type, with a limit that is reached now and then.
pub struct Restarts(usize);

impl Restarts {
    pub fn none() -> Restarts {
        Restarts(0)
    }

    pub fn again(&mut self) -> bool {
        self.0 += 1;
        self.0 <= RESTARTS
    }
}

/// Replaces each sequence's own program: the models run the library's, by name.
pub const NOTHING: Program = Program {
    name: "",
    parameters: &[],
    steps: &[],
    exits: &[],
    result: Outcome {
        shape: Shape::Plain,
        words: &[],
    },
    by_commit: &[],
    abort: None,
    registers: 0,
};

/// Returns the library's sequence of this name; of two, the stack's.
pub fn program(name: &str) -> &'static Program {
    let all = [
        atomseq::internals::DCAS_SEQUENCES,
        atomseq::internals::NONBLOCKING_SEQUENCES,
    ];
    let mut all = all
        .into_iter()
        .flatten()
        .flat_map(|(_, programs)| *programs);
    all.find(|program| program.name == name)
        .unwrap_or_else(|| panic!("there is no sequence {name}"))
}

/// The result of a sequence.
pub trait FromValue {
    fn from_value(value: Value) -> Self;
}

impl FromValue for usize {
    fn from_value(value: Value) -> usize {
        value.words[0]
    }
}

impl FromValue for bool {
    fn from_value(value: Value) -> bool {
        value.shape == Shape::True
    }
}

/// Runs a section on the CPU where the thread is then.
pub fn run(program: &'static Program, arguments: &[usize]) -> Result<Value, Closed> {
    for _ in 0..=RESTARTS {
        if let Some(value) = attempt(program, arguments) {
            return Ok(value);
        }
        count(|events| &mut events.aborted);
        let outcome = Attempt::new(program, arguments).aborted(program);
        if let Some(outcome) = outcome {
            return Ok(outcome);
        }
    }
    Err(Closed)
}

/// Makes an attempt. Returns `None` if it was aborted.
fn attempt(program: &Program, arguments: &[usize]) -> Option<Value> {
    let mut attempt = Attempt::new(program, arguments);
    if !with(|world| world.me().has_sections) {
        // It detects that before it touches memory.
        return Some(attempt.run(program, &mut Memory::default(), usize::MAX));
    }
    let cpu = current_cpu();
    let number = with(|world| {
        world.running[cpu] += 1;
        world.running[cpu]
    });
    while attempt.outcome().is_none() {
        let (reads, writes) = attempt.touches(program);
        let mut memory = Memory::default();
        let touched = reads.or(writes);
        if touched.is_some() {
            step();
            if shuttle::rand::thread_rng().gen_bool(0.05) || !is_running(cpu, number) {
                return None;
            }
        }
        if let Some(span) = reads {
            memory.store(
                span.address,
                word(span.address).load(Ordering::SeqCst) as usize,
            );
        }
        attempt.step(program, &mut memory, cpu);
        if let Some(span) = writes {
            word(span.address).store(memory.load(span.address) as u64, Ordering::SeqCst);
        }
    }
    attempt.outcome().cloned()
}

fn is_running(cpu: usize, number: usize) -> bool {
    with(|world| world.running[cpu] == number)
}

fn word<'a>(address: usize) -> &'a Real {
    check(address);
    // SAFETY: a word of a model, in this execution, that is alive.
    unsafe { &*std::ptr::with_exposed_provenance(address) }
}
