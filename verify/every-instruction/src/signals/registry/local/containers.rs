//! [`Stack`] and [`Queue`].

use atomseq::local::{Queue, Stack};

use super::super::{Named, each, found};
use crate::scenario::{Check, Fresh};

/// Wrappers, states and scenarios of a container of words.
macro_rules! container {
    ($module:ident: $container:ident, $push:literal, $pop:literal, $len:literal) => {
        mod $module {
            use super::*;
            use crate::scenario::Words;

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

            /// After `TURNS` elements have come and gone.
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
                    // By the operation that is tested: a drain's own copy of the sequence would
                    // need scenarios, too.
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

pub fn check(checker: &mut impl Check) {
    stack::check(checker);
    queue::check(checker);
}
