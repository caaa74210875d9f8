//! `nonblocking-stack` and `nonblocking-queue`: a push and a pop on a container that all CPUs
//! share.

use std::collections::VecDeque;

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{LinkedQueue, LinkedStack, Queue, Stack};
use crossbeam_queue::{ArrayQueue, SegQueue};

use super::{Experiment, Method, Threads, case};
use crate::bench::peers::herlihy::CopyingStack;
use crate::bench::peers::mutexed::Mutexed;
use crate::bench::peers::treiber::PooledTreiber;
use crate::bench::peers::treiber::TreiberQueue;
use crate::bench::peers::treiber::TreiberStack;
use crate::bench::workloads::exchange::{Container, Exchange, elements};

/// The experiment.
pub const STACK: Experiment = Experiment {
    name: "nonblocking-stack",
    about: "a push and a pop, last in, first out, on a stack that all threads share",
    cases: &[
        case(
            "atomseq",
            "nonblocking::Stack, by the mechanism of this process",
            |threads| Exchange::boxed(threads, Stack::<u64>::with_capacity(elements(threads))),
        ),
        case(
            "atomseq-kcas",
            "nonblocking::Stack by k-CAS, which is portable",
            |threads| {
                Exchange::boxed(
                    threads,
                    Stack::<u64>::forced(elements(threads), Mechanism::Kcas),
                )
            },
        ),
        case(
            "atomseq-linked",
            "nonblocking::LinkedStack, whose values lie in nodes",
            |threads| Exchange::boxed(threads, LinkedStack::<u64>::new()),
        ),
        case(
            "treiber",
            "Treiber's stack, double-width compare-and-swap; its elements are its nodes",
            |threads| Exchange::boxed(threads, TreiberStack::new(elements(threads))),
        ),
        case(
            "treiber-pool",
            "Treiber's stack of values, in nodes from type-stable memory",
            |threads| Exchange::boxed(threads, PooledTreiber::new()),
        ),
        case(
            "herlihy",
            "Herlihy's stack: copied as a whole, its root compared and swapped",
            |threads| Exchange::boxed(threads, CopyingStack::new(elements(threads), threads)),
        ),
        case(
            "crossbeam-array",
            "crossbeam_queue::ArrayQueue as a bag",
            |threads| Exchange::boxed(threads, ArrayQueue::new(elements(threads))),
        ),
        case("mutex", "std::sync::Mutex<Vec>", |threads| {
            Exchange::boxed(threads, Mutexed::new(Vec::with_capacity(elements(threads))))
        }),
    ],
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

impl Container for Stack<u64> {
    #[inline(always)]
    unsafe fn push(&self, element: u64) -> Result<(), u64> {
        Self::push(self, element)
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        Self::pop(self)
    }
}

impl Container for LinkedStack<u64> {
    #[inline(always)]
    unsafe fn push(&self, element: u64) -> Result<(), u64> {
        Self::push(self, element).map_err(|_| element)
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        Self::pop(self)
    }
}

impl Container for LinkedQueue<u64> {
    #[inline(always)]
    unsafe fn push(&self, element: u64) -> Result<(), u64> {
        Self::push(self, element).map_err(|_| element)
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        Self::pop(self)
    }
}

/// The experiment.
pub const QUEUE: Experiment = Experiment {
    name: "nonblocking-queue",
    about: "a push and a pop, first in, first out, on a queue that all threads share",
    cases: &[
        case(
            "atomseq",
            "nonblocking::Queue, by the mechanism of this process",
            |threads| Exchange::boxed(threads, Queue::<u64>::with_capacity(elements(threads))),
        ),
        case(
            "atomseq-kcas",
            "nonblocking::Queue by k-CAS, which is portable",
            |threads| Exchange::boxed(threads, Queue::<u64>::by_kcas(elements(threads))),
        ),
        case(
            "atomseq-linked",
            "nonblocking::LinkedQueue, unbounded",
            |threads| Exchange::boxed(threads, LinkedQueue::<u64>::new()),
        ),
        case(
            "crossbeam-array",
            "crossbeam_queue::ArrayQueue, bounded too",
            |threads| Exchange::boxed(threads, ArrayQueue::new(elements(threads))),
        ),
        case(
            "crossbeam-seg",
            "crossbeam_queue::SegQueue, unbounded",
            |threads| Exchange::boxed(threads, SegQueue::new()),
        ),
        case(
            "treiber",
            "two Treiber stacks, the inbox reversed into the outbox",
            |threads| Exchange::boxed(threads, TreiberQueue::new(elements(threads))),
        ),
        case("mutex", "std::sync::Mutex<VecDeque>", |threads| {
            Exchange::boxed(
                threads,
                Mutexed::new(VecDeque::with_capacity(elements(threads))),
            )
        }),
    ],
    peers: &["treiber", "crossbeam-array", "crossbeam-seg", "mutex"],
    method: Method::Timed,
    threads: Threads::Crowded,
    beside: None,
};

impl Container for Queue<u64> {
    #[inline(always)]
    unsafe fn push(&self, element: u64) -> Result<(), u64> {
        Self::push(self, element)
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        Self::pop(self)
    }
}
