//! [`List`].

use atomseq::percpu::{Link, List, Node};

use super::{by_cpu, found, on_both};
use crate::cpu::Cpus;
use crate::scenario::{Check, Fresh, Operation, Scenario, Words};

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
    // The same node first again, with another behind it: the classic trap for a list.
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

pub fn check(checker: &mut impl Check) {
    let states: [(&str, Fresh<Nodes>); 3] = [
        ("empty", with::<0>),
        ("one node", with::<1>),
        ("three nodes", with::<3>),
    ];
    for (state, fresh) in states {
        let base = Scenario {
            name: format!("List::push, {state}"),
            fresh,
            operation: |list| push(list, 100),
            interferences: INTERFERENCES,
            signal_safe: true,
            whole: true,
            content,
            total: content,
        };
        checker.check(&base);
        checker.check(&Scenario {
            name: format!("List::pop, {state}"),
            operation: pop,
            ..base
        });
    }
}
