//! The structures of `atomseq::local`: [`Counter`], [`Stack`], [`Queue`], and [`Ring`] with
//! elements of one word, of two, of six and of less than one; the map is in a file of its own.

mod map;

use atomseq::local::{Counter, Queue, Ring, Stack};

use super::found;
use crate::scenario::{Check, Fresh, Named, Operation, Words, each};

pub fn check(checker: &mut impl Check) {
    check_counter(checker);
    stack::check(checker);
    queue::check(checker);
    of_words::check(checker);
    of_pairs::check(checker);
    of_six::check(checker);
    of_less::check(checker);
    map::check(checker);
}

#[inline(never)]
fn add(counter: &Counter, amount: u64) -> Words {
    counter.add(amount);
    vec![]
}

#[inline(never)]
fn drain(counter: &Counter) -> Words {
    vec![counter.take()]
}

fn fresh() -> Counter {
    let counter = Counter::new();
    add(&counter, 7);
    counter
}

const INTERFERENCES: &[Named<Counter>] = &[("add", |counter| add(counter, 5)), ("drain", drain)];

fn check_counter(checker: &mut impl Check) {
    let operations: [Named<Counter>; 2] = [
        ("local::Counter::add", |counter| add(counter, 3)),
        ("local::Counter::drain", drain),
    ];
    each(
        checker,
        &[("at 7", fresh)],
        &operations,
        INTERFERENCES,
        |counter| vec![counter.sum()],
    );
}

/// Wrappers, states and scenarios of a container of words.
macro_rules! container {
    ($module:ident: $container:ident, $push:literal, $pop:literal, $len:literal) => {
        mod $module {
            use super::*;

            type Two = $container<u64, 2>;

            #[inline(never)]
            fn push(container: &Two, value: u64) -> Words {
                found(container.push(value).err())
            }

            #[inline(never)]
            fn pop(container: &Two) -> Words {
                found(container.pop())
            }

            #[inline(never)]
            fn len(container: &Two) -> Words {
                vec![container.len() as u64]
            }

            /// Makes one through which `TURNS` elements have passed.
            fn with<const FILLED: u64, const TURNS: u64>() -> Two {
                let container = Two::new();
                for turn in 0..TURNS {
                    push(&container, turn);
                    pop(&container);
                }
                (1..=FILLED).for_each(|value| assert!(push(&container, value).is_empty()));
                container
            }

            const INTERFERENCES: &[Named<Two>] = &[
                ("push", |container| push(container, 8)),
                ("pop", pop),
                ("push and push", |container| {
                    [push(container, 80), push(container, 81)].concat()
                }),
                ("pop and push", |container| {
                    [pop(container), push(container, 82)].concat()
                }),
                ("pop and pop", |container| {
                    [pop(container), pop(container)].concat()
                }),
            ];

            pub fn check(checker: &mut impl Check) {
                let states: [(&str, Fresh<Two>); 4] = [
                    ("empty", with::<0, 0>),
                    ("one element", with::<1, 0>),
                    ("one element, around the end", with::<1, 1>),
                    ("full", with::<2, 1>),
                ];
                let operations: [Named<Two>; 3] = [
                    ($push, |container| push(container, 9)),
                    ($pop, pop),
                    ($len, len),
                ];
                each(checker, &states, &operations, INTERFERENCES, |container| {
                    // By the tested operation: a drain's own copy of the sequence would need
                    // scenarios, too.
                    let taken =
                        std::iter::from_fn(|| Some(pop(container)).filter(|word| !word.is_empty()));
                    taken.flatten().collect()
                });
            }
        }
    };
}

container!(stack: Stack, "local::Stack::push", "local::Stack::pop", "local::Stack::len");
container!(queue: Queue, "local::Queue::push", "local::Queue::pop", "local::Queue::len");

/// Marks an element behind the popped ones that an interrupted attempt has written.
const SPOILED: u64 = u64::MAX;

/// Wrappers, states and scenarios of a ring of one kind of element.
macro_rules! ring {
    ($module:ident: $element:ty, $of:expr, $words:expr, $whole_batches:literal) => {
        mod $module {
            use super::*;

            type Four = Ring<$element, 4>;

            fn words(element: Option<$element>) -> Words {
                element.into_iter().flat_map($words).collect()
            }

            #[inline(never)]
            fn push(ring: &Four, value: u64) -> Words {
                words(ring.push($of(value)).err())
            }

            #[inline(never)]
            fn pop(ring: &Four) -> Words {
                words(ring.pop())
            }

            #[inline(never)]
            fn len(ring: &Four) -> Words {
                vec![ring.len() as u64]
            }

            /// Pushes a batch of a size that the compiler does not know.
            #[inline(never)]
            fn push_some(ring: &Four, count: usize) -> Words {
                let batch = [$of(20), $of(21), $of(22), $of(23)];
                vec![ring.push_batch(&batch[..count]) as u64]
            }

            /// Returns the elements popped, and [`SPOILED`] for each behind them that the operation
            /// has changed.
            #[inline(never)]
            fn pop_some(ring: &Four, count: usize) -> Words {
                let own = [$of(0), $of(0), $of(0), $of(0)];
                let mut batch = own;
                let popped = ring.pop_batch(&mut batch[..count]);
                let spoiled = (popped..own.len()).filter(|index| batch[*index] != own[*index]);
                let spoiled: Words = spoiled.map(|_| SPOILED).collect();
                let popped = batch.into_iter().take(popped).flat_map($words);
                popped.chain(spoiled).collect()
            }

            fn with<const FILLED: u64, const TURNS: u64>() -> Four {
                let ring = Four::new();
                for turn in 0..TURNS {
                    push(&ring, turn);
                    pop(&ring);
                }
                (1..=FILLED).for_each(|value| assert!(push(&ring, value).is_empty()));
                ring
            }

            const INTERFERENCES: &[Named<Four>] = &[
                ("push", |ring| push(ring, 8)),
                ("pop", pop),
                ("pop and push", |ring| [pop(ring), push(ring, 82)].concat()),
            ];

            pub fn check(checker: &mut impl Check) {
                let states: [(&str, Fresh<Four>); 4] = [
                    ("empty", with::<0, 0>),
                    ("one element", with::<1, 0>),
                    ("two elements, around the end", with::<2, 3>),
                    ("full", with::<4, 1>),
                ];
                let name = |method: &str| -> &'static str {
                    // A few names, leaked for as long as the test runs.
                    format!("local::Ring<{}>::{method}", stringify!($element)).leak()
                };
                let operations: [Named<Four>; 3] = [
                    (name("push"), |ring| push(ring, 9)),
                    (name("pop"), pop),
                    (name("len"), len),
                ];
                // By the tested operation: a drain has a copy of the sequence of its own.
                let content: Operation<Four> = |ring| {
                    let taken = || Some(pop(ring)).filter(|words| !words.is_empty());
                    std::iter::from_fn(taken).flatten().collect()
                };
                each(checker, &states, &operations, INTERFERENCES, content);
                if !$whole_batches {
                    return;
                }
                // A batch that does not cross the end is one sequence.
                let empty: (&str, Fresh<Four>) = ("empty", with::<0, 0>);
                let pushes: [Named<Four>; 3] = [
                    (name("push_batch, 1"), |ring| push_some(ring, 1)),
                    (name("push_batch, 2"), |ring| push_some(ring, 2)),
                    (name("push_batch, 4"), |ring| push_some(ring, 4)),
                ];
                each(checker, &[empty], &pushes, INTERFERENCES, content);
                let full: (&str, Fresh<Four>) = ("full", with::<4, 0>);
                let pops: [Named<Four>; 3] = [
                    (name("pop_batch, 1"), |ring| pop_some(ring, 1)),
                    (name("pop_batch, 2"), |ring| pop_some(ring, 2)),
                    (name("pop_batch, 4"), |ring| pop_some(ring, 4)),
                ];
                each(checker, &[full], &pops, INTERFERENCES, content);
                // As many elements as are asked for: an interruption leaves fewer.
                let two: (&str, Fresh<Four>) = ("two elements", with::<2, 0>);
                each(checker, &[two], &pops[1..2], INTERFERENCES, content);
            }
        }
    };
}

ring!(of_words: u64, |value| value, |word| [word], true);
ring!(of_pairs: [u64; 2], |value| [value; 2], |pair| pair, true);
ring!(of_six: [u64; 6], |value| [value; 6], |six| six, true);
ring!(of_less: (u8, u16), |value| (value as u8, value as u16), |(one, two)| [one.into(), two.into()], false);
