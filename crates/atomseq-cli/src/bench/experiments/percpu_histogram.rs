//! `percpu-histogram`: recording values in the 65 buckets of the powers of two.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use atomseq::percpu::Histogram;
use crossbeam_utils::CachePadded;

use super::{Experiment, Method, Threads, cases};
use crate::bench::engine::{GRAIN, Subject};
use crate::bench::fault::Fault;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "percpu-histogram",
    about: "recording a value in a histogram that all threads share",
    cases: cases! {
        "rseq", "percpu::Histogram", |_| Box::new(Recording(Histogram::powers_of_two()));
        "interlocked", "one array of AtomicU64 for all threads, fetch_add",
            |_| Box::new(Recording(Interlocked::default()));
        "mutex", "std::sync::Mutex<[u64; 65]>", |_| Box::new(Recording(Locked::default()));
        "thread-local",
            "plain words of each thread, which no other thread can read before it hands them in",
            |_| Box::new(Recording(ThreadLocal::default()));
    },
    peers: &["interlocked", "mutex", "thread-local"],
    method: Method::Timed,
    threads: Threads::Spread,
    beside: None,
};

const BUCKETS: usize = 65;

/// The bucket of a value: 0, 1, 2 to 3, 4 to 7, and so on.
#[inline(always)]
fn bucket(value: u64) -> usize {
    64 - value.leading_zeros() as usize
}

/// Something that counts values in buckets.
trait Record: Sync {
    /// Counts a value.
    fn record(&self, value: u64);

    /// Called by a thread at the end of a run, for counts that only their thread can read.
    fn hand_in(&self) {}

    /// How many values fell into each bucket.
    fn counts(&self) -> Vec<u64>;
}

impl Record for Histogram {
    #[inline(always)]
    fn record(&self, value: u64) {
        Self::record(self, value);
    }

    fn counts(&self) -> Vec<u64> {
        self.snapshot().counts().to_vec()
    }
}

/// One array that every thread adds to. Relaxed throughout, here and below: counts order nothing,
/// and they are read after the threads have met at the crew's mutex.
struct Interlocked(CachePadded<[AtomicU64; BUCKETS]>);

impl Default for Interlocked {
    fn default() -> Self {
        Self(CachePadded::new([const { AtomicU64::new(0) }; BUCKETS]))
    }
}

impl Record for Interlocked {
    #[inline(always)]
    fn record(&self, value: u64) {
        self.0[bucket(value)].fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> Vec<u64> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        counts.collect()
    }
}

/// An array behind a mutex.
struct Locked(CachePadded<Mutex<[u64; BUCKETS]>>);

impl Default for Locked {
    fn default() -> Self {
        Self(CachePadded::new(Mutex::new([0; BUCKETS])))
    }
}

impl Record for Locked {
    #[inline(always)]
    fn record(&self, value: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[bucket(value)] += 1;
    }

    fn counts(&self) -> Vec<u64> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.to_vec()
    }
}

thread_local! {
    static COUNTS: [Cell<u64>; BUCKETS] = const { [const { Cell::new(0) }; BUCKETS] };
}

/// Plain words of each thread, handed in at the end of a run.
#[derive(Default)]
struct ThreadLocal {
    handed_in: Interlocked,
}

impl Record for ThreadLocal {
    #[inline(always)]
    fn record(&self, value: u64) {
        COUNTS.with(|counts| {
            let count = &counts[bucket(value)];
            count.set(count.get() + 1);
        });
    }

    fn hand_in(&self) {
        COUNTS.with(|counts| {
            for (count, to) in counts.iter().zip(self.handed_in.0.iter()) {
                to.fetch_add(count.take(), Ordering::Relaxed);
            }
        });
    }

    fn counts(&self) -> Vec<u64> {
        self.handed_in.counts()
    }
}

/// Every thread records the values below [`GRAIN`] in turn.
struct Recording<R>(R);

impl<R: Record> Subject for Recording<R> {
    fn run(&self, _thread: usize, operations: u64) {
        for _ in 0..operations / GRAIN {
            for value in 0..GRAIN {
                self.0.record(black_box(value));
            }
        }
        self.0.hand_in();
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        let mut expected = [0; BUCKETS];
        (0..GRAIN).for_each(|value| expected[bucket(value)] += operations / GRAIN);
        let counts = self.0.counts();
        if counts == expected {
            return Ok(());
        }
        let total = counts.iter().sum();
        let sentence = format!("its buckets hold {total} values of {operations}, or others");
        Err(Fault::count(operations, [total], sentence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records every value as one less.
    #[derive(Default)]
    struct Shifted(Interlocked);

    impl Record for Shifted {
        fn record(&self, value: u64) {
            self.0.record(value.saturating_sub(1));
        }

        fn counts(&self) -> Vec<u64> {
            self.0.counts()
        }
    }

    #[test]
    fn the_check_tells_full_buckets_from_wrong_ones() {
        for case in EXPERIMENT.make(1, |_| true) {
            case.subject.run(0, 2 * GRAIN);
            assert_eq!(case.subject.check(2 * GRAIN), Ok(()), "{}", case.name);
            assert!(case.subject.check(3 * GRAIN).is_err(), "{}", case.name);
        }
        let shifted = Recording(Shifted::default());
        shifted.run(0, GRAIN);
        assert!(shifted.check(GRAIN).is_err());
    }
}
