//! Counters without atomseq: by interlocked instruction, one that all threads share and one a CPU;
//! and by plain words that each thread keeps to itself.

use std::cell::{Cell, OnceCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_utils::CachePadded;

use crate::bench::workloads::counting::Count;
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

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static REGISTERED: OnceCell<Arc<CachePadded<AtomicU64>>> = const { OnceCell::new() };
}

/// A plain word a thread, handed in at the end of a run.
#[derive(Default)]
pub struct ThreadLocal {
    handed_in: AtomicU64,
}

impl Count for ThreadLocal {
    #[inline(always)]
    fn add(&self, amount: u64) {
        COUNT.with(|count| count.set(count.get() + amount));
    }

    fn hand_in(&self) {
        self.handed_in.fetch_add(COUNT.take(), Ordering::Relaxed);
    }

    fn sum(&self) -> u64 {
        self.handed_in.load(Ordering::Relaxed)
    }
}

/// A padded word a thread, which a registry keeps for the readers. A thread may use one registry
/// only.
#[derive(Default)]
pub struct Registered {
    all: Mutex<Vec<Arc<CachePadded<AtomicU64>>>>,
}

impl Registered {
    fn register(&self) -> Arc<CachePadded<AtomicU64>> {
        let count = Arc::<CachePadded<AtomicU64>>::default();
        self.all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::clone(&count));
        count
    }
}

impl Count for Registered {
    #[inline(always)]
    fn add(&self, amount: u64) {
        REGISTERED.with(|mine| {
            let count = mine.get_or_init(|| self.register());
            // Only this thread writes it: no interlocked instruction. Relaxed: readers want a
            // number, no order.
            count.store(count.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
        });
    }

    fn sum(&self) -> u64 {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}
