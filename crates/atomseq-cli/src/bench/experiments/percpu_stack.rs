//! `percpu-stack`: a push and a pop.

use atomseq::percpu::Stack;
use crossbeam_queue::ArrayQueue;

use super::{Experiment, Method};
use crate::bench::engine::Case;
use crate::bench::exchange::{Container, Exchange, elements};
use crate::bench::peers::mutexed::Mutexed;
use crate::bench::peers::treiber::TreiberStack;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "percpu-stack",
    about: "a push and a pop, last in, first out",
    structure: "percpu::Stack",
    operation: "a push and a pop on",
    cases: &[
        ("rseq", "percpu::Stack"),
        (
            "treiber",
            "Treiber's stack with a tagged head, double-width compare-and-swap",
        ),
        ("mutex", "std::sync::Mutex<Vec>"),
        ("crossbeam", "crossbeam_queue::ArrayQueue as a bag"),
    ],
    method: Method::Timed(cases),
};

fn cases(threads: usize) -> Vec<Case> {
    let elements = elements(threads);
    vec![
        Exchange::case("rseq", threads, Stack::new(elements)),
        Exchange::case("treiber", threads, TreiberStack::new(elements)),
        Exchange::case("mutex", threads, Mutexed::new(Vec::with_capacity(elements))),
        Exchange::case("crossbeam", threads, ArrayQueue::new(elements)),
    ]
}

impl Container for Stack<u64> {
    #[inline(always)]
    fn push(&self, element: u64) -> Result<(), u64> {
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
