//! `flow-queue`: a queue used as a queue. Half of the threads push, the other half pop.

use std::collections::VecDeque;

use atomseq::nonblocking::Queue;
use crossbeam_queue::ArrayQueue;

use super::{Experiment, Method, Threads, case};
use crate::bench::flow::{Conveyor, Flow, Wait};
use crate::bench::peers::mutexed::{Limited, Mutexed};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "flow-queue",
    about: "an element through a bounded queue, from threads that push to threads that pop",
    cases: &[
        case(
            "spin-16:atomseq",
            "nonblocking::Queue of 16; threads that find it empty or full spin",
            |threads| Flow::bounded(threads, Wait::Spin, Queue::<u64>::with_capacity(16)),
        ),
        case(
            "spin-16:crossbeam-array",
            "crossbeam_queue::ArrayQueue; here and below",
            |threads| Flow::bounded(threads, Wait::Spin, ArrayQueue::new(16)),
        ),
        case(
            "spin-16:mutex",
            "std::sync::Mutex<VecDeque>; here and below",
            |threads| Flow::bounded(threads, Wait::Spin, limited_queue(16)),
        ),
        case(
            "spin-1024:atomseq",
            "the same with room for 1,024",
            |threads| Flow::bounded(threads, Wait::Spin, Queue::<u64>::with_capacity(1024)),
        ),
        case("spin-1024:crossbeam-array", "the same", |threads| {
            Flow::bounded(threads, Wait::Spin, ArrayQueue::new(1024))
        }),
        case("spin-1024:mutex", "the same", |threads| {
            Flow::bounded(threads, Wait::Spin, limited_queue(1024))
        }),
        case(
            "yield-16:atomseq",
            "the same of 16; threads that wait yield",
            |threads| Flow::bounded(threads, Wait::Yield, Queue::<u64>::with_capacity(16)),
        ),
        case("yield-16:crossbeam-array", "the same", |threads| {
            Flow::bounded(threads, Wait::Yield, ArrayQueue::new(16))
        }),
        case("yield-16:mutex", "the same", |threads| {
            Flow::bounded(threads, Wait::Yield, limited_queue(16))
        }),
        case(
            "yield-1024:atomseq",
            "the same with room for 1,024",
            |threads| Flow::bounded(threads, Wait::Yield, Queue::<u64>::with_capacity(1024)),
        ),
        case("yield-1024:crossbeam-array", "the same", |threads| {
            Flow::bounded(threads, Wait::Yield, ArrayQueue::new(1024))
        }),
        case("yield-1024:mutex", "the same", |threads| {
            Flow::bounded(threads, Wait::Yield, limited_queue(1024))
        }),
    ],
    peers: &["crossbeam-array", "mutex"],
    method: Method::Timed,
    threads: Threads::Flow,
    beside: None,
};

fn limited_queue(room: usize) -> Limited<VecDeque<u64>> {
    Limited::new(Mutexed::new(VecDeque::with_capacity(room)), room)
}

impl Conveyor for Queue<u64> {
    #[inline(always)]
    fn push(&self, number: u64) -> Result<(), u64> {
        Self::push(self, number)
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        Self::pop(self)
    }
}
