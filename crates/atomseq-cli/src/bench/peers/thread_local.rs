//! Counters that a thread keeps to itself. `ThreadLocal` is the cheapest there is and can be read
//! by nobody else until its thread hands it in; `Registered` is what a metrics library does so that
//! it can be read while its threads live.

use std::cell::{Cell, OnceCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_utils::CachePadded;

use crate::bench::experiments::Count;

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
