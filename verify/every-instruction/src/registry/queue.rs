//! [`Queue`].

use atomseq::percpu::Queue;

use super::{by_cpu, found, on_both, taken};
use crate::cpu::Cpus;
use crate::scenario::{Check, Fresh, Operation, Scenario, Words};

type Words64 = Queue<u64>;

#[inline(never)]
fn push(queue: &Words64, value: u64) -> Words {
    taken(queue.push(value))
}

#[inline(never)]
fn pop(queue: &Words64) -> Words {
    found(queue.pop())
}

/// With so many elements on each CPU; 31 fill the cells a queue begins with.
fn with<const FILLED: u64>() -> Words64 {
    let queue = Queue::new();
    on_both(|cpu| (1..=FILLED).for_each(|value| assert!(push(&queue, cpu + value).is_empty())));
    queue
}

fn content(queue: &Words64) -> Words {
    by_cpu(|cpu| queue.steal_from(cpu))
}

const INTERFERENCES: &[(&str, Operation<Words64>)] = &[
    ("push", |queue| push(queue, 200)),
    ("pop", pop),
    ("steal", |queue| {
        found(queue.steal_from(Cpus::allowed().home))
    }),
    ("drain", |queue| queue.drain().collect()),
];

pub fn check(checker: &mut impl Check) {
    let states: [(&str, Fresh<Words64>); 4] = [
        ("empty", with::<0>),
        ("one element", with::<1>),
        ("two elements", with::<2>),
        ("out of cells", with::<31>),
    ];
    for (state, fresh) in states {
        let base = Scenario {
            name: format!("Queue::push, {state}"),
            fresh,
            operation: |queue| push(queue, 100),
            interferences: INTERFERENCES,
            signal_safe: true,
            whole: true,
            content,
            total: content,
        };
        checker.check(&base);
        checker.check(&Scenario {
            name: format!("Queue::pop, {state}"),
            operation: pop,
            ..base
        });
    }
}
