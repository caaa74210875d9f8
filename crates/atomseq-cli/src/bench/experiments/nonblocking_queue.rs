//! `nonblocking-queue`: a push and a pop on a queue that all CPUs share.

use std::collections::VecDeque;

use atomseq::nonblocking::Queue;
use crossbeam_queue::{ArrayQueue, SegQueue};

use super::{Experiment, Method, Threads, case};
use crate::bench::exchange::{Container, Exchange, elements};
use crate::bench::peers::mutexed::Mutexed;
use crate::bench::peers::treiber_queue::TreiberQueue;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
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
            "the same by k-CAS: the portable way",
            |threads| Exchange::boxed(threads, Queue::<u64>::by_kcas(elements(threads))),
        ),
        case(
            "crossbeam-array",
            "crossbeam_queue::ArrayQueue, which is bounded too",
            |threads| Exchange::boxed(threads, ArrayQueue::new(elements(threads))),
        ),
        case(
            "crossbeam-seg",
            "crossbeam_queue::SegQueue, which is not",
            |threads| Exchange::boxed(threads, SegQueue::new()),
        ),
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
