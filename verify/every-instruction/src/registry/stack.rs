//! [`Stack`].

use atomseq::percpu::Stack;

use super::{by_cpu, found, on_both, taken};
use crate::cpu::Cpus;
use crate::scenario::{Check, Fresh, Operation, Scenario, Words};

type Words64 = Stack<u64>;

#[inline(never)]
fn push(stack: &Words64, value: u64) -> Words {
    taken(stack.push(value))
}

#[inline(never)]
fn pop(stack: &Words64) -> Words {
    found(stack.pop())
}

/// Of three places a CPU, with some filled.
fn with<const FILLED: u64>() -> Words64 {
    let stack = Stack::with_capacity_per_cpu(3);
    on_both(|cpu| (1..=FILLED).for_each(|value| assert!(push(&stack, cpu + value).is_empty())));
    stack
}

fn content(stack: &Words64) -> Words {
    by_cpu(|cpu| stack.steal_from(cpu))
}

const INTERFERENCES: &[(&str, Operation<Words64>)] = &[
    ("push", |stack| push(stack, 200)),
    ("pop", pop),
    ("steal", |stack| {
        found(stack.steal_from(Cpus::allowed().home))
    }),
    ("drain", |stack| stack.drain().collect()),
];

pub fn check(checker: &mut impl Check) {
    let states: [(&str, Fresh<Words64>); 4] = [
        ("empty", with::<0>),
        ("one element", with::<1>),
        ("two elements", with::<2>),
        ("full", with::<3>),
    ];
    for (state, fresh) in states {
        let base = Scenario {
            name: format!("Stack::push, {state}"),
            fresh,
            operation: |stack| push(stack, 100),
            interferences: INTERFERENCES,
            signal_safe: true,
            whole: true,
            content,
            total: content,
        };
        checker.check(&base);
        checker.check(&Scenario {
            name: format!("Stack::pop, {state}"),
            operation: pop,
            ..base
        });
    }
}
