//! `rwlock`: a lock that all threads read under, and that a thread writes under seldom. The
//! workload is how often each thread writes: never, or once every so many reads.

use std::hint::black_box;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use atomseq::mutex::RwLock;
use crossbeam_utils::CachePadded;
use lock_api::RawRwLock;

use super::{Experiment, Method, Threads, cases};
use crate::bench::engine::{GRAIN, Subject};
use crate::bench::fault::Fault;
use crate::bench::workloads::locking::Tally;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "rwlock",
    about: "a lock that all threads read under; they never write, once every million reads, or every thousand",
    cases: cases! {
        "read:atomseq", "mutex::RwLock, only read",
            |_| Reading::<RwLock<Tally>>::boxed(u64::MAX);
        "read:parking_lot", "parking_lot::RwLock, only read",
            |_| Reading::<parking_lot::RwLock<Tally>>::boxed(u64::MAX);
        "read:std", "std::sync::RwLock, only read",
            |_| Reading::<std::sync::RwLock<Tally>>::boxed(u64::MAX);
        "write-1e6:atomseq", "mutex::RwLock, a write every 1,000,000 reads",
            |_| Reading::<RwLock<Tally>>::boxed(1_000_000);
        "write-1e6:parking_lot", "parking_lot::RwLock, a write every 1,000,000 reads",
            |_| Reading::<parking_lot::RwLock<Tally>>::boxed(1_000_000);
        "write-1e6:std", "std::sync::RwLock, a write every 1,000,000 reads",
            |_| Reading::<std::sync::RwLock<Tally>>::boxed(1_000_000);
        "write-1e3:atomseq", "mutex::RwLock, a write every 1,000 reads",
            |_| Reading::<RwLock<Tally>>::boxed(1_000);
        "write-1e3:parking_lot", "parking_lot::RwLock, a write every 1,000 reads",
            |_| Reading::<parking_lot::RwLock<Tally>>::boxed(1_000);
        "write-1e3:std", "std::sync::RwLock, a write every 1,000 reads",
            |_| Reading::<std::sync::RwLock<Tally>>::boxed(1_000);
    },
    peers: &["parking_lot", "std"],
    method: Method::Timed,
    threads: Threads::Crowded,
    beside: None,
};

/// A lock around a tally.
trait ReadWrite: Default + Sync + 'static {
    /// Reads it while no other thread writes.
    fn read(&self, work: impl FnOnce(&Tally));

    /// Writes to it while no other thread reads or writes.
    fn write(&self, work: impl FnOnce(&Tally));
}

/// parking_lot's and atomseq's own, whose guards are lock_api's.
impl<R: RawRwLock + Send + Sync + 'static> ReadWrite for lock_api::RwLock<R, Tally> {
    #[inline(always)]
    fn read(&self, work: impl FnOnce(&Tally)) {
        work(&self.read());
    }

    #[inline(always)]
    fn write(&self, work: impl FnOnce(&Tally)) {
        work(&self.write());
    }
}

impl ReadWrite for std::sync::RwLock<Tally> {
    #[inline(always)]
    fn read(&self, work: impl FnOnce(&Tally)) {
        work(&self.read().unwrap_or_else(PoisonError::into_inner));
    }

    #[inline(always)]
    fn write(&self, work: impl FnOnce(&Tally)) {
        work(&self.write().unwrap_or_else(PoisonError::into_inner));
    }
}

/// All threads read under one lock, and each writes after so many reads.
struct Reading<L> {
    lock: CachePadded<L>,
    reads_per_write: u64,
    /// The writes of all threads. Counted after a run, apart from the lock.
    writes: AtomicU64,
}

impl<L: ReadWrite> Reading<L> {
    fn boxed(reads_per_write: u64) -> Box<dyn Subject> {
        Box::new(Reading {
            lock: CachePadded::<L>::default(),
            reads_per_write,
            writes: AtomicU64::new(0),
        })
    }
}

impl<L: ReadWrite> Subject for Reading<L> {
    fn run(&self, _thread: usize, operations: u64) {
        let mut writes = 0;
        let mut until_write = self.reads_per_write;
        for _ in 0..operations / GRAIN {
            for _ in 0..GRAIN {
                self.lock.read(|tally| _ = black_box(tally.total()));
            }
            until_write = until_write.saturating_sub(GRAIN);
            if until_write == 0 {
                until_write = self.reads_per_write;
                self.lock.write(Tally::count);
                writes += 1;
            }
        }
        // Relaxed: read after the threads have met at the crew's mutex.
        self.writes.fetch_add(writes, Ordering::Relaxed);
    }

    fn check(&self, _operations: u64) -> Result<(), Fault> {
        let mut result = Ok(());
        // Relaxed: as above.
        let writes = self.writes.load(Ordering::Relaxed);
        self.lock.read(|tally| result = tally.expect(writes));
        result
    }
}
