//! `percpu-stack`: a push and a pop.

use crossbeam_queue::ArrayQueue;

use super::{Experiment, Method};
use crate::bench::engine::Case;
use crate::bench::exchange::{Exchange, elements};
use crate::bench::peers::mutexed::Mutexed;
use crate::bench::peers::treiber::TreiberStack;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "percpu-stack",
    about: "a push and a pop, last in, first out",
    structure: "percpu::Stack",
    operation: "a push and a pop on",
    cases: &[
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
        Exchange::case("treiber", threads, TreiberStack::new(elements)),
        Exchange::case("mutex", threads, Mutexed::new(Vec::with_capacity(elements))),
        Exchange::case("crossbeam", threads, ArrayQueue::new(elements)),
    ]
}
