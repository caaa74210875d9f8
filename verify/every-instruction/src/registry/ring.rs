//! [`Ring`]: of words, which have sequences of their own; of pairs; and of elements that are not
//! whole words.

use std::fmt::Debug;

use atomseq::percpu::Ring;

use super::{by_cpu, on_both};
use crate::scenario::{Check, Fresh, Operation, Scenario, Words};
use verify_support::cpus::Cpus;

/// An element of the rings tested here.
trait Element: Copy + Send + Debug + PartialEq + 'static {
    /// Whether a batch goes through one sequence; otherwise each element goes through a sequence of
    /// its own.
    const WHOLE: bool = size_of::<Self>().is_multiple_of(8);

    fn of(number: u64) -> Self;
    fn number(self) -> u64;
}

impl Element for u64 {
    fn of(number: u64) -> u64 {
        number
    }

    fn number(self) -> u64 {
        self
    }
}

impl Element for [u64; 2] {
    fn of(number: u64) -> [u64; 2] {
        [number, number << 32]
    }

    /// Panics on a torn pair.
    fn number(self) -> u64 {
        assert_eq!(self[0] << 32, self[1], "a torn pair");
        self[0]
    }
}

impl Element for [u16; 5] {
    fn of(number: u64) -> [u16; 5] {
        [number as u16; 5]
    }

    fn number(self) -> u64 {
        assert!(self == [self[0]; 5], "a torn element");
        self[0].into()
    }
}

#[inline(never)]
fn push<T: Element>(ring: &Ring<T>, number: u64) -> Words {
    let refused = ring.push(T::of(number)).err();
    refused.map(T::number).into_iter().collect()
}

#[inline(never)]
fn pop<T: Element>(ring: &Ring<T>) -> Words {
    ring.pop().map(T::number).into_iter().collect()
}

/// Pushes a batch; returns the elements refused.
#[inline(never)]
fn push_batch<T: Element>(ring: &Ring<T>, from: u64, count: u64) -> Words {
    let elements: Vec<T> = (from..from + count).map(T::of).collect();
    let pushed = ring.push_batch(&elements);
    (from + pushed as u64..from + count).collect()
}

/// Marks an element behind the popped ones that the operation has overwritten.
const SPOILED: u64 = u64::MAX;

/// Pops a batch into the caller's slice. Returns the popped elements and the state of the elements
/// behind them, which an aborted attempt must leave unchanged.
#[inline(never)]
fn pop_batch<T: Element>(ring: &Ring<T>, count: usize) -> Words {
    let mut elements = vec![T::of(0); count];
    let popped = ring.pop_batch(&mut elements);
    let (popped, behind) = elements.split_at(popped);
    let spoiled = behind.iter().filter(|element| **element != T::of(0));
    let numbers = popped.iter().map(|element| element.number());
    numbers.chain(spoiled.map(|_| SPOILED)).collect()
}

/// Appends a batch; returns the elements refused.
#[inline(never)]
fn append<T: Element>(ring: &Ring<T>, from: u64, count: u64) -> Words {
    let mut elements: Vec<T> = (from..from + count).map(T::of).collect();
    ring.append(&mut elements);
    elements.into_iter().map(T::number).collect()
}

#[inline(never)]
fn pop_into<T: Element>(ring: &Ring<T>, count: usize) -> Words {
    let mut elements = Vec::with_capacity(count);
    ring.pop_into(&mut elements);
    elements.into_iter().map(T::number).collect()
}

/// Makes a ring of four places a CPU, with its first element in the place `FIRST`.
fn with<T: Element, const FIRST: u64, const FILLED: u64>() -> Ring<T> {
    let ring = Ring::with_capacity_per_cpu(4);
    on_both(|cpu| {
        for _ in 0..FIRST {
            push(&ring, 0);
            pop(&ring);
        }
        (1..=FILLED).for_each(|value| assert!(push(&ring, cpu + value).is_empty()));
    });
    ring
}

fn content<T: Element>(ring: &Ring<T>) -> Words {
    by_cpu(|cpu| ring.steal_from(cpu).map(T::number))
}

fn interferences<T: Element>() -> &'static [(&'static str, Operation<Ring<T>>)] {
    const {
        &[
            ("push", |ring| push(ring, 200)),
            ("pop", pop),
            ("pop_batch", |ring| pop_batch(ring, 2)),
            ("push_batch", |ring| push_batch(ring, 300, 2)),
            ("steal", |ring| {
                let stolen = ring.steal_from(Cpus::allowed().home);
                stolen.map(T::number).into_iter().collect()
            }),
            ("drain", |ring| ring.drain().map(T::number).collect()),
        ]
    }
}

fn check_each<T: Element>(checker: &mut impl Check, name: &'static str) {
    let operations: [(&str, u64, Operation<Ring<T>>); 10] = [
        ("push", 1, |ring| push(ring, 100)),
        ("pop", 1, pop),
        ("push_batch of 1", 1, |ring| push_batch(ring, 100, 1)),
        ("push_batch of 3", 3, |ring| push_batch(ring, 100, 3)),
        ("pop_batch of 1", 1, |ring| pop_batch(ring, 1)),
        ("pop_batch of 3", 3, |ring| pop_batch(ring, 3)),
        ("append of 1", 1, |ring| append(ring, 100, 1)),
        ("append of 3", 3, |ring| append(ring, 100, 3)),
        ("pop_into with room for 1", 1, |ring| pop_into(ring, 1)),
        ("pop_into with room for 3", 3, |ring| pop_into(ring, 3)),
    ];
    let states: [(&str, Fresh<Ring<T>>); 5] = [
        ("empty", with::<T, 0, 0>),
        ("full", with::<T, 0, 4>),
        ("empty before the end", with::<T, 2, 0>),
        ("three across the end", with::<T, 2, 3>),
        ("full across the end", with::<T, 2, 4>),
    ];
    for (operation_name, count, operation) in operations {
        for (state, fresh) in states {
            checker.check(&Scenario {
                name: format!("Ring<{name}>::{operation_name}, {state}"),
                fresh,
                operation,
                interferences: interferences(),
                // A batch tries again for the elements that did not fit, or were not there, in its
                // first sequence.
                signal_safe: true,
                whole: count == 1,
                content,
                total: content,
            });
        }
    }
    type Batch<T> = (&'static str, Fresh<Ring<T>>, Operation<Ring<T>>);
    let batches: [Batch<T>; 2] = [
        ("push_batch of 3, all at once", with::<T, 0, 0>, |ring| {
            push_batch(ring, 100, 3)
        }),
        ("pop_batch of 3, all at once", with::<T, 0, 4>, |ring| {
            pop_batch(ring, 3)
        }),
    ];
    for (operation_name, fresh, operation) in batches {
        checker.check(&Scenario {
            name: format!("Ring<{name}>::{operation_name}"),
            fresh,
            operation,
            interferences: interferences(),
            signal_safe: true,
            whole: T::WHOLE,
            content,
            total: content,
        });
    }
}

pub fn check(checker: &mut impl Check) {
    check_each::<u64>(checker, "u64");
    check_each::<[u64; 2]>(checker, "[u64; 2]");
    check_each::<[u16; 5]>(checker, "[u16; 5]");
}
