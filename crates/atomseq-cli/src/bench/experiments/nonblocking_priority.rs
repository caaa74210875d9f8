//! `nonblocking-priority`: events that are inserted, and popped in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::PriorityQueue;
use crossbeam_skiplist::SkipSet;

use super::{Experiment, Method, Threads, cases};
use crate::bench::peers::mutexed::Mutexed;
use crate::bench::workloads::pending::{Hold, Pending};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "nonblocking-priority",
    about: "inserting an event and popping the next one, in a queue that holds 1, 1,000 or 100,000",
    cases: cases! {
        "1:atomseq", "nonblocking::PriorityQueue of 1 event, by the mechanism of this process",
            |threads| Hold::boxed(threads, 1, PriorityQueue::new());
        "1:atomseq-kcas", "nonblocking::PriorityQueue of 1 event by k-CAS, which is portable",
            |threads| Hold::boxed(threads, 1, PriorityQueue::forced(Mechanism::Kcas));
        "1:crossbeam-skip", "crossbeam_skiplist::SkipSet of 1 event",
            |threads| Hold::boxed(threads, 1, SkipSet::new());
        "1:mutex", "std::sync::Mutex<BinaryHeap> of 1 event",
            |threads| Hold::boxed(threads, 1, Heap::default());
        "1000:atomseq", "the same of 1,000 events",
            |threads| Hold::boxed(threads, 1_000, PriorityQueue::new());
        "1000:atomseq-kcas", "the same of 1,000 events",
            |threads| Hold::boxed(threads, 1_000, PriorityQueue::forced(Mechanism::Kcas));
        "1000:crossbeam-skip", "the same of 1,000 events",
            |threads| Hold::boxed(threads, 1_000, SkipSet::new());
        "1000:mutex", "the same of 1,000 events",
            |threads| Hold::boxed(threads, 1_000, Heap::default());
        "100000:atomseq", "the same of 100,000 events",
            |threads| Hold::boxed(threads, 100_000, PriorityQueue::new());
        "100000:atomseq-kcas", "the same of 100,000 events",
            |threads| Hold::boxed(threads, 100_000, PriorityQueue::forced(Mechanism::Kcas));
        "100000:crossbeam-skip", "the same of 100,000 events",
            |threads| Hold::boxed(threads, 100_000, SkipSet::new());
        "100000:mutex", "the same of 100,000 events",
            |threads| Hold::boxed(threads, 100_000, Heap::default());
    },
    peers: &["crossbeam-skip", "mutex"],
    method: Method::Timed,
    threads: Threads::Crowded,
    beside: None,
};

type Heap = Mutexed<BinaryHeap<Reverse<(u64, u64)>>>;

impl Pending for PriorityQueue<u64, u64> {
    #[inline(always)]
    fn insert(&self, time: u64, event: u64) -> bool {
        Self::insert(self, time, event).is_ok()
    }

    #[inline(always)]
    fn pop(&self) -> Option<(u64, u64)> {
        Self::pop(self)
    }
}

// An event is in the key, which makes equal times different.
impl Pending for SkipSet<(u64, u64)> {
    #[inline(always)]
    fn insert(&self, time: u64, event: u64) -> bool {
        Self::insert(self, (time, event));
        true
    }

    #[inline(always)]
    fn pop(&self) -> Option<(u64, u64)> {
        self.pop_front().map(|entry| *entry)
    }
}

#[cfg(test)]
mod tests {
    use super::super::all_is_accounted_for;
    use super::*;

    #[test]
    fn every_queue_keeps_every_event() {
        let is_small = |name: &str| !name.starts_with("100000:");
        all_is_accounted_for(&EXPERIMENT, is_small);
    }
}
