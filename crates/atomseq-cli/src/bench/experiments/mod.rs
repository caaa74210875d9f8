//! The experiments, a file each. An experiment measures one structure beside what one would use without atomseq; a
//! subject does its work through the public safe interface, and all subjects of an experiment share one loop, so that
//! what keeps the compiler from removing work costs each the same.

mod percpu_counter;
mod percpu_footprint;
mod percpu_pool;
mod percpu_queue;
mod percpu_ring;
mod percpu_stack;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64",
    not(atomseq_portable)
))]
mod rollforward_cost;
#[cfg(target_os = "linux")]
mod signal_mask;
#[cfg(target_os = "linux")]
mod signal_sequence;

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64",
    not(atomseq_portable)
))]
pub use rollforward_cost::trial;

pub use percpu_counter::Count;
pub use percpu_pool::{Block, Blocks};
pub use percpu_ring::{BURST, Channel, each_received, each_sent};

use super::beside::Beside;
use super::engine::{Case, Effort};
use super::record::Series;
use crate::error::Error;

/// One experiment.
pub struct Experiment {
    /// What it is called on the command line and in records.
    pub name: &'static str,
    /// What it measures, in a phrase.
    pub about: &'static str,
    /// The structure of atomseq's that it measures.
    pub structure: &'static str,
    /// What is done to that structure, as the beginning of a phrase.
    pub operation: &'static str,
    /// Its cases, with what each stands for.
    pub cases: &'static [(&'static str, &'static str)],
    /// How it is done.
    pub method: Method,
    /// Whether its threads have nothing to do with each other, so that one says all unless more are asked for.
    pub alone: bool,
    /// What a paper published of the same.
    pub beside: Option<&'static Beside>,
}

/// An experiment's own way to measure.
pub type Run = fn(Effort, &dyn Fn(f64)) -> Result<Vec<Series>, Error>;

/// How an experiment is done.
pub enum Method {
    /// The engine runs these cases, made for so many threads.
    Timed(fn(usize) -> Vec<Case>),
    /// It has its own way, with a number of threads of its own.
    Own {
        /// That number.
        threads: usize,
        /// Measures, telling a share done to the function.
        run: Run,
    },
}

/// Every experiment, in the order they run in.
pub const ALL: &[&Experiment] = &[
    &percpu_counter::EXPERIMENT,
    &percpu_stack::EXPERIMENT,
    &percpu_queue::EXPERIMENT,
    &percpu_ring::EXPERIMENT,
    &percpu_pool::EXPERIMENT,
    &percpu_footprint::EXPERIMENT,
    #[cfg(target_os = "linux")]
    &signal_sequence::EXPERIMENT,
    #[cfg(target_os = "linux")]
    &signal_mask::EXPERIMENT,
    #[cfg(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        target_pointer_width = "64",
        not(atomseq_portable)
    ))]
    &rollforward_cost::EXPERIMENT,
];

/// The experiment of that name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter()
        .copied()
        .find(|experiment| experiment.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_has_the_cases_it_lists() {
        for experiment in ALL {
            let Method::Timed(cases) = experiment.method else {
                continue;
            };
            let made: Vec<_> = cases(2).iter().map(|case| case.name).collect();
            let listed: Vec<_> = experiment.cases.iter().map(|(name, _)| *name).collect();
            assert_eq!(made, listed, "{}", experiment.name);
        }
    }
}
