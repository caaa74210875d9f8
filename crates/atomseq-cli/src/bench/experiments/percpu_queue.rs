//! `percpu-queue`: a push and a pop, first in, first out.

use std::collections::VecDeque;

use atomseq::percpu::Queue;
use crossbeam_queue::SegQueue;

use super::{Experiment, Method, Threads};
use crate::bench::engine::Case;
use crate::bench::exchange::{Container, Exchange, elements};
use crate::bench::peers::mutexed::Mutexed;
use crate::bench::peers::treiber_queue::TreiberQueue;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "percpu-queue",
    about: "a push and a pop, first in, first out",
    cases: &[
        ("rseq", "percpu::Queue"),
        (
            "treiber",
            "two Treiber stacks, the inbox turned round into the outbox",
        ),
        ("mutex", "std::sync::Mutex<VecDeque>"),
        ("crossbeam", "crossbeam_queue::SegQueue"),
    ],
    peers: &["mutex", "treiber", "crossbeam"],
    method: Method::Timed(cases),
    threads: Threads::Spread,
    beside: None,
};

fn cases(threads: usize) -> Vec<Case> {
    let elements = elements(threads);
    vec![
        Exchange::case("rseq", threads, Queue::new()),
        Exchange::case("treiber", threads, TreiberQueue::new(elements)),
        Exchange::case(
            "mutex",
            threads,
            Mutexed::new(VecDeque::with_capacity(elements)),
        ),
        Exchange::case("crossbeam", threads, SegQueue::new()),
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

    fn pop_anywhere(&self) -> Option<u64> {
        (0..self.cpus()).find_map(|cpu| self.steal_from(cpu))
    }
}
