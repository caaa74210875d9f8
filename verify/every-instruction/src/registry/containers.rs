//! [`Stack`], [`Queue`] and [`List`].

use atomseq::percpu::{Link, List, Node, Queue, Stack};

use super::{by_cpu, found, on_both, taken};
use crate::scenario::{Check, Fresh, Named, Operation, Words, each};
use verify_support::cpus::Cpus;

/// Wrappers, states and scenarios of a container of words.
macro_rules! container {
    ($module:ident: $container:ident by $new:expr, $states:expr, $push:literal, $pop:literal) => {
        mod $module {
            use super::*;

            type Words64 = $container<u64>;

            #[inline(never)]
            fn push(container: &Words64, value: u64) -> Words {
                taken(container.push(value))
            }

            #[inline(never)]
            fn pop(container: &Words64) -> Words {
                found(container.pop())
            }

            /// Makes one with this number of elements on each CPU.
            fn with<const FILLED: u64>() -> Words64 {
                let container = $new;
                on_both(|cpu| {
                    (1..=FILLED)
                        .for_each(|value| assert!(push(&container, cpu + value).is_empty()));
                });
                container
            }

            const INTERFERENCES: &[Named<Words64>] = &[
                ("push", |container| push(container, 200)),
                ("pop", pop),
                ("steal", |container| {
                    found(container.steal_from(Cpus::allowed().home))
                }),
                ("drain", |container| container.drain().collect()),
            ];

            pub fn check(checker: &mut impl Check) {
                let makers: [Fresh<Words64>; 4] =
                    [with::<0>, with::<1>, with::<2>, with::<{ $states.1 }>];
                let names = ["empty", "one element", "two elements", $states.0];
                let states: Vec<(&str, Fresh<Words64>)> = names.into_iter().zip(makers).collect();
                let operations: [Named<Words64>; 2] =
                    [($push, |container| push(container, 100)), ($pop, pop)];
                each(checker, &states, &operations, INTERFERENCES, |container| {
                    by_cpu(|cpu| container.steal_from(cpu))
                });
            }
        }
    };
}

// Three places a CPU.
container!(stack: Stack by Stack::with_capacity_per_cpu(3), ("full", 3), "Stack::push", "Stack::pop");
// 31 elements fill the cells that a queue begins with.
container!(queue: Queue by Queue::new(), ("out of cells", 31), "Queue::push", "Queue::pop");

struct Numbered {
    number: u64,
    link: Link,
}

// SAFETY: the offset of the link.
unsafe impl Node for Numbered {
    const LINK: usize = std::mem::offset_of!(Numbered, link);
}

type Nodes = List<Box<Numbered>>;

#[inline(never)]
fn put(list: &Nodes, node: Box<Numbered>) {
    list.push(node);
}

#[inline(never)]
fn take(list: &Nodes) -> Option<Box<Numbered>> {
    list.pop()
}

fn push(list: &Nodes, number: u64) -> Words {
    let link = Link::new();
    put(list, Box::new(Numbered { number, link }));
    vec![]
}

fn pop(list: &Nodes) -> Words {
    found(take(list).map(|node| node.number))
}

fn with<const FILLED: u64>() -> Nodes {
    let list = List::new();
    on_both(|cpu| {
        (1..=FILLED).for_each(|number| {
            push(&list, cpu + number);
        })
    });
    list
}

fn steal(list: &Nodes, cpu: usize) -> Option<u64> {
    list.steal_from(cpu).map(|node| node.number)
}

fn content(list: &Nodes) -> Words {
    by_cpu(|cpu| steal(list, cpu))
}

const INTERFERENCES: &[(&str, Operation<Nodes>)] = &[
    ("push", |list| push(list, 200)),
    ("pop", pop),
    ("steal", |list| found(steal(list, Cpus::allowed().home))),
    ("drain", |list| {
        list.drain().map(|node| node.number).collect()
    }),
    // Pops two nodes and pushes the first again, with another behind it: the ABA problem of a list.
    ("two pops and a push of the first", |list| {
        let (first, second) = (take(list), take(list));
        let words = [&first, &second]
            .into_iter()
            .flat_map(|node| node.as_ref().map(|node| node.number))
            .collect();
        if let Some(first) = first {
            put(list, first);
        }
        words
    }),
];

fn check_list(checker: &mut impl Check) {
    let states: [(&str, Fresh<Nodes>); 3] = [
        ("empty", with::<0>),
        ("one node", with::<1>),
        ("three nodes", with::<3>),
    ];
    let operations: [Named<Nodes>; 2] =
        [("List::push", |list| push(list, 100)), ("List::pop", pop)];
    each(checker, &states, &operations, INTERFERENCES, content);
}

pub fn check(checker: &mut impl Check) {
    stack::check(checker);
    check_list(checker);
    queue::check(checker);
}
