//! `nonblocking-stack`: a push and a pop on a stack that all CPUs share.

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{LinkedStack, Stack};
use crossbeam_queue::ArrayQueue;

use super::{Experiment, Method, Threads};
use crate::bench::engine::Case;
use crate::bench::exchange::{Container, Exchange, elements};
use crate::bench::peers::herlihy::CopyingStack;
use crate::bench::peers::mutexed::Mutexed;
use crate::bench::peers::treiber::TreiberStack;
use crate::bench::peers::treiber_pool::PooledTreiber;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "nonblocking-stack",
    about: "a push and a pop, last in, first out, on a stack that all threads share",
    cases: &[
        (
            "atomseq",
            "nonblocking::Stack, by the mechanism of this process",
        ),
        ("atomseq-kcas", "the same by k-CAS: the portable way"),
        (
            "atomseq-linked",
            "nonblocking::LinkedStack, whose values lie in nodes",
        ),
        (
            "treiber",
            "Treiber's stack, double-width compare-and-swap; its elements are its nodes",
        ),
        (
            "treiber-pool",
            "the same for values: in nodes from type-stable memory",
        ),
        (
            "herlihy",
            "Herlihy's: the whole stack copied, its root compared and swapped",
        ),
        ("crossbeam-array", "crossbeam_queue::ArrayQueue as a bag"),
        ("mutex", "std::sync::Mutex<Vec>"),
    ],
    peers: &[
        "treiber",
        "treiber-pool",
        "herlihy",
        "crossbeam-array",
        "mutex",
    ],
    method: Method::Timed(cases),
    threads: Threads::Crowded,
    beside: None,
};

fn cases(threads: usize) -> Vec<Case> {
    let elements = elements(threads);
    let kcas = Stack::<u64>::forced(elements, Mechanism::Kcas);
    let herlihy = CopyingStack::new(elements, threads);
    vec![
        Exchange::case("atomseq", threads, Stack::<u64>::with_capacity(elements)),
        Exchange::case("atomseq-kcas", threads, kcas),
        Exchange::case("atomseq-linked", threads, LinkedStack::<u64>::new()),
        Exchange::case("treiber", threads, TreiberStack::new(elements)),
        Exchange::case("treiber-pool", threads, PooledTreiber::new()),
        Exchange::case("herlihy", threads, herlihy),
        Exchange::case("crossbeam-array", threads, ArrayQueue::new(elements)),
        Exchange::case("mutex", threads, Mutexed::new(Vec::with_capacity(elements))),
    ]
}

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
