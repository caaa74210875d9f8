//! `percpu-stack` and `percpu-queue`: a push and a pop.

use std::collections::VecDeque;
use std::mem::offset_of;
use std::ptr::NonNull;

use atomseq::percpu::{Link, List, Node, Queue, RawNode, Stack};
use crossbeam_queue::{ArrayQueue, SegQueue};
use crossbeam_utils::CachePadded;

use super::{Experiment, Method, Threads, cases};
use crate::bench::peers::mutexed::Mutexed;
use crate::bench::peers::treiber::TreiberQueue;
use crate::bench::peers::treiber::TreiberStack;
use crate::bench::workloads::exchange::{Container, Exchange, elements};
use crate::bench::workloads::push_and_pop;

/// The experiment.
pub const STACK: Experiment = Experiment {
    name: "percpu-stack",
    about: "a push and a pop, last in, first out",
    cases: cases! {
        "rseq", "percpu::Stack",
            |threads| Exchange::boxed(threads, Stack::with_capacity_per_cpu(elements(threads)));
        "rseq-list", "percpu::List, whose nodes belong to its user, as treiber's do",
            |threads| Exchange::boxed(threads, NodeList::new(elements(threads)));
        "treiber", "Treiber's stack with a tagged head, double-width compare-and-swap",
            |threads| Exchange::boxed(threads, TreiberStack::new(elements(threads)));
        "mutex", "std::sync::Mutex<Vec>",
            |threads| Exchange::boxed(threads, Mutexed::new(Vec::with_capacity(elements(threads))));
        "crossbeam", "crossbeam_queue::ArrayQueue as a bag",
            |threads| Exchange::boxed(threads, ArrayQueue::new(elements(threads)));
    },
    peers: &["mutex", "treiber", "crossbeam"],
    method: Method::Timed,
    threads: Threads::Spread,
    beside: None,
};

push_and_pop!(Container for Stack<u64>: Self::push, Self::pop,
    |it: &Self| (0..it.cpus()).find_map(|cpu| it.steal_from(cpu)));

/// A list of nodes that are numbered like the elements.
struct NodeList {
    list: List<RawNode<Linked>>,
    nodes: Box<[CachePadded<Linked>]>,
}

/// A node that is nothing but a link.
#[derive(Default)]
struct Linked {
    link: Link,
}

// SAFETY: that is where the link is.
unsafe impl Node for Linked {
    const LINK: usize = offset_of!(Linked, link);
}

impl NodeList {
    fn new(elements: usize) -> Self {
        Self {
            list: List::new(),
            nodes: (0..elements).map(|_| CachePadded::default()).collect(),
        }
    }

    #[inline(always)]
    fn number(&self, node: RawNode<Linked>) -> u64 {
        let offset = node.into_inner().addr().get() - self.nodes.as_ptr().addr();
        (offset / size_of::<CachePadded<Linked>>()) as u64
    }
}

impl Container for NodeList {
    #[inline(always)]
    unsafe fn push(&self, element: u64) -> Result<(), u64> {
        let node = NonNull::from(&*self.nodes[element as usize]);
        // SAFETY: the caller holds the element and so its node, which lives as long as the list.
        self.list.push(unsafe { RawNode::new(node) });
        Ok(())
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        self.list.pop().map(|node| self.number(node))
    }

    fn pop_anywhere(&self) -> Option<u64> {
        let node = (0..self.list.cpus()).find_map(|cpu| self.list.steal_from(cpu));
        node.map(|node| self.number(node))
    }
}

/// The experiment.
pub const QUEUE: Experiment = Experiment {
    name: "percpu-queue",
    about: "a push and a pop, first in, first out",
    cases: cases! {
        "rseq", "percpu::Queue", |threads| Exchange::boxed(threads, Queue::new());
        "treiber", "two Treiber stacks, the inbox reversed into the outbox",
            |threads| Exchange::boxed(threads, TreiberQueue::new(elements(threads)));
        "mutex", "std::sync::Mutex<VecDeque>",
            |threads| {
                Exchange::boxed(
                    threads,
                    Mutexed::new(VecDeque::with_capacity(elements(threads))),
                )
            };
        "crossbeam", "crossbeam_queue::SegQueue",
            |threads| Exchange::boxed(threads, SegQueue::new());
    },
    peers: &["mutex", "treiber", "crossbeam"],
    method: Method::Timed,
    threads: Threads::Spread,
    beside: None,
};

push_and_pop!(Container for Queue<u64>: Self::push, Self::pop,
    |it: &Self| (0..it.cpus()).find_map(|cpu| it.steal_from(cpu)));
