//! `biased`: locks that one CPU uses most. The workload is which threads use them:
//!
//! * `home`: two threads of one CPU, which share the operations.
//! * `visitor-1e6`, `visitor-1e4`, `visitor-1e2`: a thread of that CPU does them, and a thread of
//!   another CPU enters once every given number. The figure is that of the first thread.
//! * `contended`: two threads on two CPUs, all the time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use atomseq::mutex::{Biased, Mutex};
use crossbeam_utils::CachePadded;

use super::{Experiment, Method, Threads, Workload, cases};
use crate::bench::engine::Subject;
use crate::bench::fault::Fault;
use crate::bench::workloads::locking::{Contention, Exclusive, Hold, Tally};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "biased",
    about: "locks that one CPU uses most: on their home CPU, with visits from another CPU, and contended",
    cases: cases! {
        "home:biased", "mutex::Biased, two threads of one CPU",
            |_| Contention::<Biased<Tally>>::shared(Hold::NONE, THREADS as u64);
        "home:interlocked", "mutex::Mutex, two threads of one CPU",
            |_| Contention::<Mutex<Tally>>::shared(Hold::NONE, THREADS as u64);
        "home:std", "std::sync::Mutex, two threads of one CPU",
            |_| Contention::<std::sync::Mutex<Tally>>::shared(Hold::NONE, THREADS as u64);
        "home:parking_lot", "parking_lot::Mutex, two threads of one CPU",
            |_| Contention::<parking_lot::Mutex<Tally>>::shared(Hold::NONE, THREADS as u64);
        "visitor-1e6:biased", "mutex::Biased, one CPU, and another every 1,000,000 operations",
            |_| Visited::<Biased<Tally>>::boxed(1_000_000);
        "visitor-1e6:interlocked", "mutex::Mutex, one CPU, and another every 1,000,000 operations",
            |_| Visited::<Mutex<Tally>>::boxed(1_000_000);
        "visitor-1e6:std", "std::sync::Mutex, one CPU, and another every 1,000,000 operations",
            |_| Visited::<std::sync::Mutex<Tally>>::boxed(1_000_000);
        "visitor-1e6:parking_lot",
            "parking_lot::Mutex, one CPU, and another every 1,000,000 operations",
            |_| Visited::<parking_lot::Mutex<Tally>>::boxed(1_000_000);
        "visitor-1e4:biased", "mutex::Biased, one CPU, and another every 10,000 operations",
            |_| Visited::<Biased<Tally>>::boxed(10_000);
        "visitor-1e4:interlocked", "mutex::Mutex, one CPU, and another every 10,000 operations",
            |_| Visited::<Mutex<Tally>>::boxed(10_000);
        "visitor-1e4:std", "std::sync::Mutex, one CPU, and another every 10,000 operations",
            |_| Visited::<std::sync::Mutex<Tally>>::boxed(10_000);
        "visitor-1e4:parking_lot",
            "parking_lot::Mutex, one CPU, and another every 10,000 operations",
            |_| Visited::<parking_lot::Mutex<Tally>>::boxed(10_000);
        "visitor-1e2:biased", "mutex::Biased, one CPU, and another every 100 operations",
            |_| Visited::<Biased<Tally>>::boxed(100);
        "visitor-1e2:interlocked", "mutex::Mutex, one CPU, and another every 100 operations",
            |_| Visited::<Mutex<Tally>>::boxed(100);
        "visitor-1e2:std", "std::sync::Mutex, one CPU, and another every 100 operations",
            |_| Visited::<std::sync::Mutex<Tally>>::boxed(100);
        "visitor-1e2:parking_lot", "parking_lot::Mutex, one CPU, and another every 100 operations",
            |_| Visited::<parking_lot::Mutex<Tally>>::boxed(100);
        "contended:biased", "mutex::Biased, two threads on two CPUs",
            |_| Contention::<Biased<Tally>>::boxed(Hold::NONE);
        "contended:interlocked", "mutex::Mutex, two threads on two CPUs",
            |_| Contention::<Mutex<Tally>>::boxed(Hold::NONE);
        "contended:std", "std::sync::Mutex, two threads on two CPUs",
            |_| Contention::<std::sync::Mutex<Tally>>::boxed(Hold::NONE);
        "contended:parking_lot", "parking_lot::Mutex, two threads on two CPUs",
            |_| Contention::<parking_lot::Mutex<Tally>>::boxed(Hold::NONE);
    },
    peers: &["std", "parking_lot"],
    method: Method::Placed {
        threads: THREADS,
        workloads: &[
            Workload {
                name: "home",
                cpus: 1,
                length: 1,
            },
            Workload {
                name: "visitor-1e6",
                cpus: 2,
                // Some visits a run.
                length: 20,
            },
            Workload {
                name: "visitor-1e4",
                cpus: 2,
                length: 1,
            },
            Workload {
                name: "visitor-1e2",
                cpus: 2,
                length: 1,
            },
            Workload {
                name: "contended",
                cpus: 2,
                length: 1,
            },
        ],
    },
    threads: Threads::Alone,
    beside: None,
};

const THREADS: usize = 2;

/// A lock whose home CPU is the first thread's, and that the second thread visits once every
/// `every` operations of the first thread, in each run and across runs: after half as many for the
/// first time.
struct Visited<L> {
    lock: CachePadded<L>,
    every: u64,
    /// How many operations the first thread has before the next visit. Only it writes this.
    left: CachePadded<AtomicU64>,
    /// How many visits are due, and how many runs of the first thread are over.
    due: CachePadded<(AtomicU64, AtomicU64)>,
    /// How many visits were made, and how many runs of the second thread are over. Only it writes
    /// them.
    made: CachePadded<(AtomicU64, AtomicU64)>,
}

impl<L: Exclusive + Default> Visited<L> {
    fn new(every: u64) -> Self {
        Self {
            lock: CachePadded::default(),
            every,
            left: CachePadded::new(AtomicU64::new(every / 2)),
            due: CachePadded::default(),
            made: CachePadded::default(),
        }
    }

    fn boxed(every: u64) -> Box<dyn Subject>
    where
        L: Sync + 'static,
    {
        Box::new(Self::new(every))
    }
}

impl<L: Exclusive + Sync> Visited<L> {
    fn stay(&self, operations: u64) {
        let _over = Over(&self.due.1);
        let mut to_do = operations;
        // Relaxed: this thread's own.
        let mut left = self.left.load(Ordering::Relaxed);
        while to_do > 0 {
            let now = left.min(to_do);
            for _ in 0..now {
                self.lock.with(Tally::count);
            }
            (to_do, left) = (to_do - now, left - now);
            if left == 0 {
                left = self.every;
                // Release: pairs with the Acquire in `visit`.
                self.due.0.fetch_add(1, Ordering::Release);
            }
        }
        self.left.store(left, Ordering::Relaxed);
    }

    fn visit(&self) {
        // Relaxed: this thread's own, here and below.
        let run = self.made.1.load(Ordering::Relaxed) + 1;
        let mut made = self.made.0.load(Ordering::Relaxed);
        let mut looks = 0_u32;
        loop {
            // Acquire, first: pairs with the Release at the run's end, after which no visit becomes
            // due.
            let over = self.due.1.load(Ordering::Acquire) >= run;
            let due = self.due.0.load(Ordering::Acquire);
            while made < due {
                self.lock.with(Tally::count);
                (made, looks) = (made + 1, 0);
            }
            if over {
                break;
            }
            looks = looks.saturating_add(1);
            // The first thread may be waiting for this CPU.
            if looks < 10_000 {
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
        self.made.0.store(made, Ordering::Relaxed);
        self.made.1.store(run, Ordering::Relaxed);
    }
}

/// Tells the visitor that a run is over, also if it ends in a panic.
struct Over<'a>(&'a AtomicU64);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `visit`.
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl<L: Exclusive + Sync> Subject for Visited<L> {
    fn run(&self, thread: usize, operations: u64) {
        match thread {
            0 => self.stay(operations),
            _ => self.visit(),
        }
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        let at_home = operations / THREADS as u64;
        let wanted = (at_home + self.every / 2) / self.every;
        // Relaxed: read after the threads have met at the crew's mutex.
        let made = self.made.0.load(Ordering::Relaxed);
        if made != wanted {
            let sentence = format!("there were {made} visits instead of {wanted}");
            return Err(Fault::count(wanted, [made], sentence));
        }
        let mut result = Ok(());
        self.lock
            .with(|tally| result = tally.expect(at_home + made));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::GRAIN;

    fn run(subject: &dyn Subject, operations: u64) {
        thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || subject.run(thread, operations));
            }
        });
    }

    #[test]
    fn every_lock_excludes_and_every_visit_is_made() {
        for case in EXPERIMENT.make(THREADS, |_| true) {
            run(&*case.subject, 512 * GRAIN);
            run(&*case.subject, 128 * GRAIN);
            let operations = THREADS as u64 * 640 * GRAIN;
            assert_eq!(case.subject.check(operations), Ok(()), "{}", case.name);
        }
    }

    #[test]
    fn visits_are_as_frequent_as_they_should_be() {
        for (every, operations, visits) in
            [(100, 64, 1), (100, 128, 1), (100, 192, 2), (200, 64, 0)]
        {
            let visited = Visited::<std::sync::Mutex<Tally>>::new(every);
            for _ in 0..operations / GRAIN {
                visited.stay(GRAIN);
                visited.visit();
            }
            assert_eq!(visited.made.0.load(Ordering::Relaxed), visits);
            assert_eq!(visited.check(2 * operations), Ok(()));
        }
    }

    #[test]
    fn a_visit_that_is_not_made_is_found() {
        let case = Visited::<std::sync::Mutex<Tally>>::new(100);
        case.run(0, 2 * GRAIN);
        let fault = case.check(4 * GRAIN).unwrap_err();
        assert_eq!(fault.sentence, "there were 0 visits instead of 1");
    }
}
