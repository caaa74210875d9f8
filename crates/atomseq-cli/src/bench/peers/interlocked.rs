//! Counters by interlocked instruction: one that all threads share, and one a CPU, chosen by asking
//! which CPU this is.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::bench::experiments::Count;
use crate::machine;

// Relaxed throughout: a count orders nothing, and it is read after the threads have met at the
// crew's mutex.

/// One word, alone on its cache lines, that every thread adds to.
#[derive(Default)]
pub struct Interlocked(CachePadded<AtomicU64>);

impl Count for Interlocked {
    #[inline(always)]
    fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    fn sum(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A padded word a CPU. A thread may be moved between asking for its CPU and adding, hence still an
/// interlocked add.
pub struct InterlockedPerCpu {
    slots: Box<[CachePadded<AtomicU64>]>,
}

impl InterlockedPerCpu {
    /// A slot for every CPU number the system may use.
    pub fn new() -> Self {
        let highest = machine::allowed_cpus().into_iter().max().unwrap_or(0);
        let slots = machine::possible_cpus().unwrap_or(0).max(highest + 1);
        Self {
            slots: (0..slots).map(|_| CachePadded::default()).collect(),
        }
    }
}

impl Count for InterlockedPerCpu {
    #[inline(always)]
    fn add(&self, amount: u64) {
        self.slots[machine::current_cpu()].fetch_add(amount, Ordering::Relaxed);
    }

    fn sum(&self) -> u64 {
        self.slots
            .iter()
            .map(|slot| slot.load(Ordering::Relaxed))
            .sum()
    }
}
