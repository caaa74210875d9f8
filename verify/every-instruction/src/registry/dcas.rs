//! OS-assisted DCAS, and the stacks built on it. An interruption ends their sequences, and the next
//! thread rolls back their partial updates. An interference then takes effect before the operation
//! or after it, as for the other structures.

use atomseq::dcas::{Cell, Change, Domain, Mechanism};
use atomseq::nonblocking::Stack;

use super::{found, taken};
use crate::scenario::{Check, Fresh, Named, Scenario, Words, each};

/// Boxed, because a domain must not move.
struct Pair(Box<Domain<[Cell; 2]>>);

impl std::ops::Deref for Pair {
    type Target = Domain<[Cell; 2]>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

fn fresh() -> Pair {
    let words = [Cell::new(1), Cell::new(2)];
    let pair = Pair(Box::new(Domain::forced(words, Mechanism::Assisted)));
    assert_eq!(pair.mechanism(), Mechanism::Assisted);
    pair
}

/// Makes a pair that a thread left with both words changed and the lock held, as if stopped
/// indefinitely.
fn abandoned() -> Pair {
    let pair = fresh();
    let (first, second) = (Change::of(&pair[0], 1, 50), Change::of(&pair[1], 2, 60));
    // SAFETY: the box is moved, the domain is not.
    assert!(unsafe { pair.abandon(first, second) });
    pair
}

/// Makes a pair whose lock was left held with nothing changed.
fn locked() -> Pair {
    let pair = fresh();
    assert!(pair.abandon_lock());
    pair
}

/// Makes a pair that a second thread left in the middle of revoking the first.
fn abandoned_twice() -> Pair {
    let pair = abandoned();
    pair.abandon_claim();
    pair
}

fn exchange(pair: &Pair) -> Words {
    exchange_by(pair, [1, 3], [2, 4])
}

/// Exchanges words of which the first differs, and so does the second.
fn exchange_changed(pair: &Pair) -> Words {
    exchange_by(pair, [7, 8], [2, 9])
}

fn exchange_half_changed(pair: &Pair) -> Words {
    exchange_by(pair, [1, 8], [7, 9])
}

/// A single copy of the sequence for all of them: not every call reaches its end.
#[inline(never)]
fn exchange_by(pair: &Pair, first: [u64; 2], second: [u64; 2]) -> Words {
    let of = |index: usize, [old, new]: [u64; 2]| Change::of(&pair[index], old, new);
    let done = pair.compare_exchange_pair(of(0, first), of(1, second));
    vec![u64::from(done.is_ok())]
}

/// Exchanges by version. An interruption changes the version, so the operation retries, as callers
/// do.
#[inline(never)]
fn swap(pair: &Pair) -> Words {
    loop {
        let ([a, b], version) = pair.snapshot([&pair[0], &pair[1]]);
        if pair
            .store_pair_if(version, (&pair[0], b), (&pair[1], a))
            .is_ok()
        {
            return vec![a, b];
        }
    }
}

#[inline(never)]
fn update(pair: &Pair) -> Words {
    vec![
        pair.fetch_update(&pair[0], |word| Some(word + 10))
            .expect("a value"),
    ]
}

#[inline(never)]
fn read(pair: &Pair) -> Words {
    pair.load_all([&pair[0], &pair[1]]).to_vec()
}

fn check_pair(checker: &mut impl Check) {
    let base = Scenario {
        name: "Domain::compare_exchange_pair".to_string(),
        fresh,
        operation: exchange,
        interferences: &[("swap", swap), ("exchange", exchange), ("read", read)],
        signal_safe: true,
        whole: true,
        content: read,
        total: read,
    };
    checker.check(&base);
    for (name, operation) in [
        (
            "Domain::compare_exchange_pair, the first word differs",
            exchange_changed as fn(&Pair) -> Words,
        ),
        (
            "Domain::compare_exchange_pair, the second word differs",
            exchange_half_changed,
        ),
        ("Domain::store_pair_if", swap),
        ("Domain::fetch_update", update),
    ] {
        checker.check(&Scenario {
            name: name.to_string(),
            operation,
            ..base
        });
    }
    // The words have the values from before the threads were stopped.
    let left: [(&str, Fresh<Pair>); 3] = [
        ("a stopped holder", abandoned),
        ("one that had changed nothing", locked),
        ("a stopped claimant", abandoned_twice),
    ];
    for (left_by, fresh) in left {
        for (name, operation) in [
            ("snapshot", read as fn(&Pair) -> Words),
            ("exchange", exchange),
        ] {
            checker.check(&Scenario {
                name: format!("Domain::{name} after {left_by}"),
                fresh,
                operation,
                ..base
            });
        }
    }
}

// Stacks shared by all CPUs. As for OS-assisted DCAS, an interruption ends their sequences, and the
// operation is retried.

/// The structure stays in place, as interrupted sequences expect, and is leaked: its destructor
/// would contain further copies of its sequences, which no scenario interrupts.
type Home<S> = &'static S;

macro_rules! scenarios {
    ($module:ident $structure:ident) => {
        mod $module {
            use super::*;

            type Structure = Home<$structure<u64>>;

            #[inline(never)]
            fn push(structure: &Structure, value: u64) -> Words {
                taken(structure.push(value))
            }

            #[inline(never)]
            fn pop(structure: &Structure) -> Words {
                found(structure.pop())
            }

            fn content(structure: &Structure) -> Words {
                std::iter::from_fn(|| pop(structure).pop()).collect()
            }

            /// Makes one of three places, with some filled.
            fn with<const FILLED: u64>() -> Structure {
                let place = Box::new_uninit();
                let structure = $structure::forced(3, Mechanism::Assisted);
                let structure: Structure = Box::leak(Box::write(place, structure));
                (1..=FILLED).for_each(|value| assert!(push(&structure, value).is_empty()));
                structure
            }

            /// Makes one that a thread left in the middle of a push, as if stopped indefinitely.
            fn abandoned<const FILLED: u64>() -> Structure {
                let structure = with::<FILLED>();
                assert!(structure.abandon(), "sections work here");
                structure
            }

            const INTERFERENCES: &[Named<Structure>] = &[
                ("push", |structure| push(structure, 200)),
                ("pop", pop),
                ("push and pop", |structure| {
                    [push(structure, 201), pop(structure)].concat()
                }),
                ("pop and push", |structure| {
                    [pop(structure), push(structure, 202)].concat()
                }),
                ("len", |structure| vec![structure.len() as u64]),
            ];

            pub fn check(checker: &mut impl Check) {
                let states: [(&str, Fresh<Structure>); 5] = [
                    ("empty", with::<0>),
                    ("one element", with::<1>),
                    ("full", with::<3>),
                    ("empty, after a stopped holder", abandoned::<0>),
                    ("two elements, after a stopped holder", abandoned::<2>),
                ];
                let operations: [Named<Structure>; 2] = [
                    (
                        concat!("nonblocking::", stringify!($structure), "::push"),
                        |structure| push(structure, 100),
                    ),
                    (
                        concat!("nonblocking::", stringify!($structure), "::pop"),
                        pop,
                    ),
                ];
                each(checker, &states, &operations, INTERFERENCES, content);
            }
        }
    };
}

scenarios!(stack Stack);

pub fn check(checker: &mut impl Check) {
    check_pair(checker);
    stack::check(checker);
}
