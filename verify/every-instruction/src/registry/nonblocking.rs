//! Stacks and queues that all CPUs share. As for OS-assisted DCAS, an interruption ends their
//! sequences, and the operation begins again.

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::Stack;

use super::{found, taken};
use crate::scenario::{Check, Fresh, Operation, Scenario, Words};

/// A structure stays where it is, as the sequences that were interrupted in it expect, and for
/// good: its destructor would have copies of its sequences where none is interrupted.
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

            /// Of three places, with some filled.
            fn with<const FILLED: u64>() -> Structure {
                let place = Box::new_uninit();
                let structure = $structure::forced(3, Mechanism::Assisted);
                let structure: Structure = Box::leak(Box::write(place, structure));
                (1..=FILLED).for_each(|value| assert!(push(&structure, value).is_empty()));
                structure
            }

            /// And left by a thread that was stopped for ever in the middle of a push.
            fn abandoned<const FILLED: u64>() -> Structure {
                let structure = with::<FILLED>();
                assert!(structure.abandon(), "sections work here");
                structure
            }

            const INTERFERENCES: &[(&str, Operation<Structure>)] = &[
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
                for (state, fresh) in states {
                    let name = stringify!($structure);
                    let base = Scenario {
                        name: format!("nonblocking::{name}::push, {state}"),
                        fresh,
                        operation: |structure| push(structure, 100),
                        interferences: INTERFERENCES,
                        signal_safe: true,
                        whole: true,
                        content,
                        total: content,
                    };
                    checker.check(&base);
                    checker.check(&Scenario {
                        name: format!("nonblocking::{name}::pop, {state}"),
                        operation: pop,
                        ..base
                    });
                }
            }
        }
    };
}

scenarios!(stack Stack);

pub fn check(checker: &mut impl Check) {
    stack::check(checker);
}
