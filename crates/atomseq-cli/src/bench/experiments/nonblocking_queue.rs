//! `nonblocking-queue`: a push and a pop on a queue that all CPUs share.

use std::collections::VecDeque;

use atomseq::nonblocking::Queue;
use crossbeam_queue::{ArrayQueue, SegQueue};

use super::{Experiment, Method, Threads};
use crate::bench::engine::Case;
use crate::bench::exchange::{Container, Exchange, elements};
use crate::bench::peers::mutexed::Mutexed;
use crate::bench::peers::treiber_queue::TreiberQueue;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "nonblocking-queue",
    about: "a push and a pop, first in, first out, on a queue that all threads share",
    cases: &[
        (
            "atomseq",
            "nonblocking::Queue, by the mechanism of this process",
        ),
        ("atomseq-kcas", "the same by k-CAS: the portable way"),
        (
            "crossbeam-array",
            "crossbeam_queue::ArrayQueue, which is bounded too",
        ),
        ("crossbeam-seg", "crossbeam_queue::SegQueue, which is not"),
        (
            "treiber",
            "two Treiber stacks, the inbox turned round into the outbox",
        ),
        ("mutex", "std::sync::Mutex<VecDeque>"),
    ],
    peers: &["treiber", "crossbeam-array", "crossbeam-seg", "mutex"],
    method: Method::Timed(cases),
    threads: Threads::Crowded,
    beside: None,
};

fn cases(threads: usize) -> Vec<Case> {
    let elements = elements(threads);
    let kcas = Queue::<u64>::by_kcas(elements);
    let mutex = Mutexed::new(VecDeque::with_capacity(elements));
    vec![
        Exchange::case("atomseq", threads, Queue::<u64>::with_capacity(elements)),
        Exchange::case("atomseq-kcas", threads, kcas),
        Exchange::case("crossbeam-array", threads, ArrayQueue::new(elements)),
        Exchange::case("crossbeam-seg", threads, SegQueue::new()),
        Exchange::case("treiber", threads, TreiberQueue::new(elements)),
        Exchange::case("mutex", threads, mutex),
    ]
}

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
