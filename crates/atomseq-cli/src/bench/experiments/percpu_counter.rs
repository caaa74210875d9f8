//! `percpu-counter`: adding to a count that many threads share.

use atomseq::percpu::Counter;

use super::{Experiment, Method, Threads, cases};
use crate::bench::peers::counts::ThreadLocal;
use crate::bench::peers::counts::{Interlocked, InterlockedPerCpu};
use crate::bench::peers::mutexed::Mutexed;
use crate::bench::workloads::counting::{Count, Counting};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "percpu-counter",
    about: "adding to a count that all threads share",
    cases: cases! {
        "rseq", "percpu::Counter", |_| Box::new(Counting(Counter::new()));
        "interlocked", "one AtomicU64 for all threads, fetch_add",
            |_| Box::new(Counting(Interlocked::default()));
        "interlocked-percpu", "an AtomicU64 for each CPU, getcpu and fetch_add",
            |_| Box::new(Counting(InterlockedPerCpu::new()));
        "mutex", "std::sync::Mutex<u64>", |_| Box::new(Counting(Mutexed::new(0_u64)));
        "thread-local",
            "a plain word of each thread, which no other thread can read before it hands it in",
            |_| Box::new(Counting(ThreadLocal::default()));
    },
    peers: &["interlocked", "interlocked-percpu", "mutex", "thread-local"],
    method: Method::Timed,
    threads: Threads::Spread,
    beside: None,
};

impl Count for Counter {
    #[inline(always)]
    fn add(&self, amount: u64) {
        Self::add(self, amount);
    }

    fn sum(&self) -> u64 {
        Self::sum(self)
    }
}
