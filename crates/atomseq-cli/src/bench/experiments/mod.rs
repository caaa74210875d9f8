//! The experiments. An experiment measures one structure beside what one would use
//! without atomseq; a subject does its work through the public safe interface, and all subjects of
//! an experiment share one loop, so that what keeps the compiler from removing work costs each the
//! same.

#[cfg(atomseq_sections)]
mod b91_table1;
#[cfg(atomseq_sections)]
mod b91_table2;
#[cfg(atomseq_sections)]
mod b91_table4;
mod biased;
mod dcas;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod drop_in;
mod flow;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod hog;
mod kcas_reclamation;
#[cfg(atomseq_sections)]
mod m94_crossover;
#[cfg(atomseq_sections)]
mod m94_paging;
mod metrics;
mod mutex;
mod nonblocking_containers;
mod nonblocking_list;
mod nonblocking_map;
mod nonblocking_priority;
#[cfg(target_os = "linux")]
mod oversubscription;
mod page_map;
mod percpu_containers;
mod percpu_counter;
mod percpu_footprint;
mod percpu_histogram;
mod percpu_ring;
mod pools;
#[cfg(atomseq_sections)]
mod rollforward_cost;
mod rwlock;
#[cfg(target_os = "linux")]
mod s92_table51;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod s92_table52;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod s92_table53;
mod server;
#[cfg(target_os = "linux")]
mod signal_mask;
#[cfg(target_os = "linux")]
mod signal_sequence;
#[cfg(target_os = "linux")]
mod stall;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod threads;

#[cfg(atomseq_sections)]
pub use rollforward_cost::trial;

#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
pub use drop_in::{ARGUMENT as DROP_IN_WORKER, worker as drop_in_worker};

use super::beside::Beside;
use super::engine::{Case, Effort, Subject};
use super::fault::Results;
use crate::error::Error;

/// One experiment.
pub struct Experiment {
    /// What it is called on the command line and in records.
    pub name: &'static str,
    /// What it measures, in a phrase.
    pub about: &'static str,
    /// Its cases, in the order of its tables.
    pub cases: &'static [Entry],
    /// The subjects, or cases, that are not atomseq's. A wrong count of theirs is no failure of the
    /// benchmark.
    pub peers: &'static [&'static str],
    /// How it is done.
    pub method: Method,
    /// How many threads it is measured with when `--threads` is not given.
    pub threads: Threads,
    /// What a paper published of the same.
    pub beside: Option<&'static Beside>,
}

/// A case of an experiment.
pub struct Entry {
    /// Its name: `subject`, or `workload:subject` where there are several workloads.
    pub name: &'static str,
    /// What it stands for.
    pub about: &'static str,
    /// Makes the subject for that many threads; `None` where the experiment has its own way to
    /// measure.
    pub(in crate::bench) make: Option<fn(usize) -> Box<dyn Subject>>,
}

/// A list of cases: name, about, and what makes the subject, unless the experiment has its own way
/// to measure.
macro_rules! cases {
    ($($(#[$if:meta])* $name:literal, $about:literal, $make:expr;)*) => {
        &[$($(#[$if])* $crate::bench::experiments::Entry { name: $name, about: $about, make: Some($make) }),*]
    };
    ($($name:expr, $about:literal;)*) => {
        &[$($crate::bench::experiments::Entry { name: $name, about: $about, make: None }),*]
    };
}
pub(in crate::bench) use cases;

impl Experiment {
    /// Makes those cases that `keep` names, for that many threads.
    pub fn make(&self, threads: usize, keep: impl Fn(&'static str) -> bool) -> Vec<Case> {
        let kept = self.cases.iter().filter(|entry| keep(entry.name));
        let made = kept.filter_map(|entry| {
            let subject = (entry.make?)(threads);
            Some(Case {
                name: entry.name,
                subject,
            })
        });
        made.collect()
    }

    /// What a case stands for.
    pub fn about(&self, case: &str) -> &'static str {
        let mut entries = self.cases.iter();
        let entry = entries.find(|entry| entry.name == case);
        entry.map_or("", |entry| entry.about)
    }
}

/// An experiment's own way to measure.
pub type Run = fn(Effort, &dyn Fn(f64)) -> Result<Results, Error>;

/// How many threads an experiment is measured with when `--threads` is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One: its threads have nothing to do with each other, so that one says all.
    Alone,
    /// One, and one a CPU.
    Spread,
    /// One, one a CPU, and four a CPU.
    Crowded,
    /// Two, one a CPU, and two a CPU: half of them produce and the other half consume, so there is
    /// always an even number.
    Flow,
}

impl Threads {
    /// The numbers, each once.
    pub fn numbers(self, cpus: usize) -> Vec<usize> {
        let mut numbers = match self {
            Self::Alone => vec![1],
            Self::Spread => vec![1, cpus],
            Self::Crowded => vec![1, cpus, 4 * cpus],
            Self::Flow => self.asked(&[2, cpus, 2 * cpus]),
        };
        numbers.dedup();
        numbers
    }

    /// The numbers that it is measured with when these are asked for, each once.
    pub fn asked(self, numbers: &[usize]) -> Vec<usize> {
        let mut possible = Vec::with_capacity(numbers.len());
        for &number in numbers {
            let number = match self {
                Self::Flow => number.next_multiple_of(2),
                Self::Alone | Self::Spread | Self::Crowded => number,
            };
            if !possible.contains(&number) {
                possible.push(number);
            }
        }
        possible
    }
}

/// Cases of one workload, whose threads have places of their own.
pub struct Workload {
    /// Its name, with which the names of its cases begin.
    pub name: &'static str,
    /// On how many CPUs its threads run. Where there are fewer, it is not measured.
    pub cpus: usize,
    /// How many times as long as usual one run of it takes.
    pub length: u32,
}

impl Workload {
    /// All there is of an experiment, on one CPU.
    pub const WHOLE: Workload = Workload {
        name: "",
        cpus: 1,
        length: 1,
    };
}

/// How an experiment is done.
pub enum Method {
    /// The engine runs the cases, with each number of threads.
    Timed,
    /// The engine runs one workload after the other, each with that number of threads on as many
    /// CPUs as it says.
    Placed {
        /// That number.
        threads: usize,
        /// The workloads.
        workloads: &'static [Workload],
    },
    /// It has its own way, with a number of threads of its own.
    Own {
        /// That number.
        threads: usize,
        /// Measures, and calls the function with the share that is done.
        run: Run,
    },
}

/// Every experiment, in the order they run in.
pub const ALL: &[&Experiment] = &[
    &percpu_counter::EXPERIMENT,
    &percpu_histogram::EXPERIMENT,
    &percpu_containers::STACK,
    &percpu_containers::QUEUE,
    &percpu_ring::EXPERIMENT,
    &pools::POOL,
    &pools::MEMORY,
    &percpu_footprint::EXPERIMENT,
    &metrics::EXPERIMENT,
    &metrics::FOOTPRINT,
    #[cfg(target_os = "linux")]
    &signal_sequence::EXPERIMENT,
    #[cfg(target_os = "linux")]
    &signal_mask::EXPERIMENT,
    #[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
    &drop_in::EXPERIMENT,
    #[cfg(atomseq_sections)]
    &rollforward_cost::EXPERIMENT,
    #[cfg(atomseq_sections)]
    &m94_crossover::EXPERIMENT,
    #[cfg(atomseq_sections)]
    &m94_paging::EXPERIMENT,
    #[cfg(atomseq_sections)]
    &b91_table1::EXPERIMENT,
    #[cfg(atomseq_sections)]
    &b91_table2::EXPERIMENT,
    #[cfg(atomseq_sections)]
    &b91_table2::COUNTS,
    #[cfg(atomseq_sections)]
    &b91_table4::EXPERIMENT,
    &mutex::EXPERIMENT,
    &biased::EXPERIMENT,
    &rwlock::EXPERIMENT,
    &dcas::EXPERIMENT,
    &kcas_reclamation::EXPERIMENT,
    #[cfg(target_os = "linux")]
    &oversubscription::EXPERIMENT,
    #[cfg(target_os = "linux")]
    &stall::EXPERIMENT,
    #[cfg(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    &threads::EXPERIMENT,
    #[cfg(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    &hog::EXPERIMENT,
    &nonblocking_containers::STACK,
    &nonblocking_containers::QUEUE,
    &nonblocking_list::EXPERIMENT,
    &nonblocking_map::EXPERIMENT,
    #[cfg(target_os = "linux")]
    &nonblocking_map::FOOTPRINT,
    &nonblocking_priority::EXPERIMENT,
    &page_map::EXPERIMENT,
    &server::EXPERIMENT,
    &flow::QUEUE,
    &flow::STACK,
    &flow::POOL,
    #[cfg(target_os = "linux")]
    &s92_table51::EXPERIMENT,
    #[cfg(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    &s92_table52::EXPERIMENT,
    #[cfg(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    &s92_table53::EXPERIMENT,
];

/// The experiment of that name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    ALL.iter()
        .copied()
        .find(|experiment| experiment.name == name)
}

/// Runs the cases that `keep` names with three threads, and has each check what they did.
#[cfg(test)]
fn all_is_accounted_for(experiment: &Experiment, keep: impl Fn(&'static str) -> bool) {
    use super::engine::GRAIN;
    for case in experiment.make(3, keep) {
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let subject = &case.subject;
                scope.spawn(move || {
                    subject.prepare(thread).unwrap();
                    subject.run(thread, 4 * GRAIN);
                });
            }
        });
        assert_eq!(case.subject.check(12 * GRAIN), Ok(()), "{}", case.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::{subject, workload};

    #[test]
    fn a_case_has_a_maker_unless_its_experiment_measures_itself() {
        for experiment in ALL {
            let is_own = matches!(experiment.method, Method::Own { .. });
            for (index, entry) in experiment.cases.iter().enumerate() {
                assert_eq!(entry.make.is_none(), is_own, "{}", entry.name);
                let mut others = experiment.cases[..index].iter();
                assert!(others.all(|other| other.name != entry.name));
            }
        }
    }

    #[test]
    fn a_peer_is_a_subject_and_no_experiment_has_only_peers() {
        for experiment in ALL {
            let is = |peer: &str, case: &'static str| peer == case || peer == subject(case);
            let cases = || experiment.cases.iter().map(|entry| entry.name);
            for peer in experiment.peers {
                // These compile for one architecture only, or with a feature.
                let is_optional = ["crate-mwcas", "jemalloc"].contains(peer);
                let there = cases().any(|case| is(peer, case)) || is_optional;
                assert!(there, "{}: {peer}", experiment.name);
            }
            let mut own =
                cases().filter(|case| !experiment.peers.iter().any(|peer| is(peer, case)));
            assert!(own.next().is_some(), "{}", experiment.name);
            // What is called after atomseq is atomseq's.
            for case in ["rseq", "atomseq", "os-assisted", "k-cas", "biased", "mask"] {
                assert!(!experiment.peers.contains(&case), "{}", experiment.name);
            }
        }
    }

    #[test]
    fn every_case_of_placed_workloads_belongs_to_one() {
        for experiment in ALL {
            let Method::Placed { workloads, .. } = experiment.method else {
                continue;
            };
            for entry in experiment.cases {
                let is_its = |placed: &&Workload| placed.name == workload(entry.name);
                assert_eq!(workloads.iter().filter(is_its).count(), 1, "{}", entry.name);
            }
        }
    }

    #[test]
    fn numbers_of_threads_are_unique() {
        assert_eq!(Threads::Alone.numbers(2), [1]);
        assert_eq!(Threads::Spread.numbers(1), [1]);
        assert_eq!(Threads::Crowded.numbers(2), [1, 2, 8]);
        assert_eq!(Threads::Flow.numbers(1), [2]);
        assert_eq!(Threads::Flow.numbers(3), [2, 4, 6]);
        assert_eq!(Threads::Flow.numbers(4), [2, 4, 8]);
    }

    #[test]
    fn half_of_the_threads_that_are_asked_for_can_produce() {
        assert_eq!(Threads::Spread.asked(&[1, 2, 5]), [1, 2, 5]);
        assert_eq!(Threads::Flow.asked(&[1, 2, 5]), [2, 6]);
    }
}
