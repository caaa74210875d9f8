//! Operations through the gate: steal, drain, and a user's own.

use atomseq::percpu::{Area, Stack};

use super::{by_cpu, found, on_both};
use crate::cpu::Cpus;
use crate::scenario::{Check, Operation, Scenario, Words};

fn with_two() -> Stack<u64> {
    let stack = Stack::with_capacity_per_cpu(3);
    on_both(|cpu| {
        for value in [1, 2] {
            stack.push(cpu + value).expect("there is room for three");
        }
    });
    stack
}

fn steal(stack: &Stack<u64>) -> Words {
    found(stack.steal_from(Cpus::allowed().home))
}

fn drain(stack: &Stack<u64>) -> Words {
    stack.drain().collect()
}

fn content(stack: &Stack<u64>) -> Words {
    by_cpu(|cpu| stack.steal_from(cpu))
}

const INTERFERENCES: &[(&str, Operation<Stack<u64>>)] = &[
    ("push", |stack| stack.push(200).err().into_iter().collect()),
    ("steal", steal),
];

/// Adds to a word under the gate.
fn add(area: &Area) -> Words {
    let held = area.close_gate(Cpus::allowed().home);
    let word = (held.address() + Area::FIRST_WORD) as *mut u64;
    // SAFETY: a word of the slot whose gate is held.
    unsafe { word.write(word.read() + 1) };
    vec![]
}

pub fn check(checker: &mut impl Check) {
    let base = Scenario {
        name: "Stack::steal_from".to_string(),
        fresh: with_two,
        operation: steal,
        interferences: INTERFERENCES,
        signal_safe: true,
        whole: true,
        content,
        total: content,
    };
    checker.check(&base);
    checker.check(&Scenario {
        name: "Stack::drain".to_string(),
        operation: drain,
        // The gate is open between two CPUs.
        whole: false,
        ..base
    });
    let peek: Operation<Area> = |area| vec![area.peek(Cpus::allowed().home, 0) as u64];
    checker.check(&Scenario {
        name: "Area::close_gate".to_string(),
        fresh: || Area::try_new(0).expect("there is memory for one area"),
        operation: add,
        interferences: &[("the same", add)],
        signal_safe: true,
        whole: true,
        content: peek,
        total: peek,
    });
}
