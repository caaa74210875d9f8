//! `percpu-queue`: a push and a pop, first in, first out.

use std::collections::VecDeque;

use atomseq::percpu::Queue;
use crossbeam_queue::SegQueue;

use super::{Experiment, Method, Threads, case};
use crate::bench::exchange::{Container, Exchange, elements};
use crate::bench::peers::mutexed::Mutexed;
use crate::bench::peers::treiber_queue::TreiberQueue;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "percpu-queue",
    about: "a push and a pop, first in, first out",
    cases: &[
        case("rseq", "percpu::Queue", |threads| {
            Exchange::boxed(threads, Queue::new())
        }),
        case(
            "treiber",
            "two Treiber stacks, the inbox turned round into the outbox",
            |threads| Exchange::boxed(threads, TreiberQueue::new(elements(threads))),
        ),
        case("mutex", "std::sync::Mutex<VecDeque>", |threads| {
            Exchange::boxed(
                threads,
                Mutexed::new(VecDeque::with_capacity(elements(threads))),
            )
        }),
        case("crossbeam", "crossbeam_queue::SegQueue", |threads| {
            Exchange::boxed(threads, SegQueue::new())
        }),
    ],
    peers: &["mutex", "treiber", "crossbeam"],
    method: Method::Timed,
    threads: Threads::Spread,
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

    fn pop_anywhere(&self) -> Option<u64> {
        (0..self.cpus()).find_map(|cpu| self.steal_from(cpu))
    }
}
