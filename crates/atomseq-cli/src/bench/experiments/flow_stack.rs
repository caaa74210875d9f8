//! `flow-stack`: a stack that half of the threads push to and the other half pop from.

use atomseq::nonblocking::Stack;
use crossbeam_queue::ArrayQueue;

use super::{Experiment, Method, Threads};
use crate::bench::engine::Case;
use crate::bench::flow::{BOUNDED, Bounded, Conveyor};
use crate::bench::peers::mutexed::{Limited, Mutexed};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "flow-stack",
    about: "an element through a bounded stack, from threads that push to threads that pop",
    cases: &[
        (
            "spin-16:atomseq",
            "nonblocking::Stack of 16; threads that find it empty or full spin",
        ),
        (
            "spin-16:crossbeam-array",
            "crossbeam_queue::ArrayQueue as a bag; here and below",
        ),
        ("spin-16:mutex", "std::sync::Mutex<Vec>; here and below"),
        ("spin-1024:atomseq", "the same with room for 1,024"),
        ("spin-1024:crossbeam-array", "the same"),
        ("spin-1024:mutex", "the same"),
        (
            "yield-16:atomseq",
            "the same of 16; threads that wait yield",
        ),
        ("yield-16:crossbeam-array", "the same"),
        ("yield-16:mutex", "the same"),
        ("yield-1024:atomseq", "the same with room for 1,024"),
        ("yield-1024:crossbeam-array", "the same"),
        ("yield-1024:mutex", "the same"),
    ],
    peers: &["crossbeam-array", "mutex"],
    method: Method::Timed(cases),
    threads: Threads::Flow,
    beside: None,
};

fn cases(threads: usize) -> Vec<Case> {
    let of = |workload: &Bounded| {
        let room = workload.room;
        let vector = Mutexed::new(Vec::with_capacity(room));
        let [ours, crossbeam, mutex] = workload.cases;
        [
            workload.case(ours, threads, Stack::<u64>::with_capacity(room)),
            workload.case(crossbeam, threads, ArrayQueue::new(room)),
            workload.case(mutex, threads, Limited::new(vector, room)),
        ]
    };
    BOUNDED.iter().flat_map(of).collect()
}

impl Conveyor for Stack<u64> {
    #[inline(always)]
    fn push(&self, number: u64) -> Result<(), u64> {
        Self::push(self, number)
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        Self::pop(self)
    }
}
