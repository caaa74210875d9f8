//! `nonblocking-stack` and `nonblocking-queue`: a push and a pop on a container that all CPUs
//! share.

use std::collections::VecDeque;

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{LinkedQueue, LinkedStack, Queue, Stack};
use crossbeam_queue::{ArrayQueue, SegQueue};

use super::{Experiment, Method, Threads, cases};
use crate::bench::peers::herlihy::CopyingStack;
use crate::bench::peers::mutexed::Mutexed;
use crate::bench::peers::treiber::PooledTreiber;
use crate::bench::peers::treiber::TreiberQueue;
use crate::bench::peers::treiber::TreiberStack;
use crate::bench::workloads::exchange::{Exchange, elements};
use crate::bench::workloads::push_and_pop;

/// The experiment.
pub const STACK: Experiment = Experiment {
    name: "nonblocking-stack",
    about: "a push and a pop, last in, first out, on a stack that all threads share",
    cases: cases! {
        "atomseq", "nonblocking::Stack, by the mechanism of this process",
            |threads| Exchange::boxed(threads, Stack::<u64>::with_capacity(elements(threads)));
        "atomseq-kcas", "nonblocking::Stack by k-CAS, which is portable",
            |threads| {
                Exchange::boxed(
                    threads,
                    Stack::<u64>::forced(elements(threads), Mechanism::Kcas),
                )
            };
        "atomseq-linked", "nonblocking::LinkedStack, whose values lie in nodes",
            |threads| Exchange::boxed(threads, LinkedStack::<u64>::new());
        "treiber", "Treiber's stack, double-width compare-and-swap; its elements are its nodes",
            |threads| Exchange::boxed(threads, TreiberStack::new(elements(threads)));
        "treiber-pool", "Treiber's stack of values, in nodes from type-stable memory",
            |threads| Exchange::boxed(threads, PooledTreiber::new());
        "herlihy", "Herlihy's stack: copied as a whole, its root compared and swapped",
            |threads| Exchange::boxed(threads, CopyingStack::new(elements(threads), threads));
        "crossbeam-array", "crossbeam_queue::ArrayQueue as a bag",
            |threads| Exchange::boxed(threads, ArrayQueue::new(elements(threads)));
        "mutex", "std::sync::Mutex<Vec>",
            |threads| Exchange::boxed(threads, Mutexed::new(Vec::with_capacity(elements(threads))));
    },
    peers: &[
        "treiber",
        "treiber-pool",
        "herlihy",
        "crossbeam-array",
        "mutex",
    ],
    method: Method::Timed,
    threads: Threads::Crowded,
    beside: None,
};

push_and_pop!(Container for Stack<u64>: Self::push, Self::pop);
push_and_pop!(Container for LinkedStack<u64>:
    |it: &Self, element| it.push(element).map_err(|_| element), Self::pop);
push_and_pop!(Container for LinkedQueue<u64>:
    |it: &Self, element| it.push(element).map_err(|_| element), Self::pop);

/// The experiment.
pub const QUEUE: Experiment = Experiment {
    name: "nonblocking-queue",
    about: "a push and a pop, first in, first out, on a queue that all threads share",
    cases: cases! {
        "atomseq", "nonblocking::Queue, by the mechanism of this process",
            |threads| Exchange::boxed(threads, Queue::<u64>::with_capacity(elements(threads)));
        "atomseq-kcas", "nonblocking::Queue by k-CAS, which is portable",
            |threads| Exchange::boxed(threads, Queue::<u64>::by_kcas(elements(threads)));
        "atomseq-linked", "nonblocking::LinkedQueue, unbounded",
            |threads| Exchange::boxed(threads, LinkedQueue::<u64>::new());
        "crossbeam-array", "crossbeam_queue::ArrayQueue, bounded too",
            |threads| Exchange::boxed(threads, ArrayQueue::new(elements(threads)));
        "crossbeam-seg", "crossbeam_queue::SegQueue, unbounded",
            |threads| Exchange::boxed(threads, SegQueue::new());
        "treiber", "two Treiber stacks, the inbox reversed into the outbox",
            |threads| Exchange::boxed(threads, TreiberQueue::new(elements(threads)));
        "mutex", "std::sync::Mutex<VecDeque>",
            |threads| {
                Exchange::boxed(
                    threads,
                    Mutexed::new(VecDeque::with_capacity(elements(threads))),
                )
            };
    },
    peers: &["treiber", "crossbeam-array", "crossbeam-seg", "mutex"],
    method: Method::Timed,
    threads: Threads::Crowded,
    beside: None,
};

push_and_pop!(Container for Queue<u64>: Self::push, Self::pop);
