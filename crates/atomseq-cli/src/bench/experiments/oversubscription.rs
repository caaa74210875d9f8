//! `oversubscription`: the CPU time of a change of two words that 32 threads share, beside that of
//! one thread alone.
//!
//! Threads that are more than the CPUs are preempted in the middle of an operation. What that costs
//! is not the time that a thread waits, most of which is the others' turns, but the time that CPUs
//! spend: so the threads' CPU times are added up and divided by all their operations. A run has a
//! fixed time, and a thread has several turns in it.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use atomseq::dcas::{Domain, Mechanism};
use atomseq::nonblocking::{HashMap, PageMap, PriorityQueue};
use crossbeam_utils::CachePadded;

use super::dcas::Padded;
use super::server::server;
use super::{Experiment, Method, Threads, cases};
use crate::bench::engine::Effort;
use crate::bench::fault::{Fault, Results};
use crate::bench::peers::pairs::Spinning;
use crate::bench::record::Series;
use crate::bench::workloads::pair::Pair;
use crate::error::Error;
use crate::machine;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "oversubscription",
    about: "CPU time of a change of two words that 32 threads share, beside that of one thread (always 32 threads)",
    cases: cases! {
        "os-assisted:crowded", "dcas::Domain, OS-assisted, 32 threads";
        "os-assisted:alone", "dcas::Domain, OS-assisted, 1 thread";
        "k-cas:crowded", "dcas::Domain, k-CAS, 32 threads";
        "k-cas:alone", "dcas::Domain, k-CAS, 1 thread";
        "map:crowded", "nonblocking::HashMap, two entries updated one by one, 32 threads";
        "map:alone", "nonblocking::HashMap, two entries updated one by one, 1 thread";
        "priority-queue:crowded", "nonblocking::PriorityQueue, an entry popped and inserted, 32 threads";
        "priority-queue:alone", "nonblocking::PriorityQueue, an entry popped and inserted, 1 thread";
        "page-map:crowded", "nonblocking::PageMap, two entries updated one by one, 32 threads";
        "page-map:alone", "nonblocking::PageMap, two entries updated one by one, 1 thread";
        "server:crowded", "nonblocking::Server of 32 words, 32 threads";
        "server:alone", "nonblocking::Server of 32 words, 1 thread";
        "spin:crowded", "two words under a lock whose waiters spin, 32 threads";
        "spin:alone", "two words under a lock whose waiters spin, 1 thread";
        "parking_lot:crowded", "parking_lot::Mutex<(u64, u64)>, 32 threads";
        "parking_lot:alone", "parking_lot::Mutex<(u64, u64)>, 1 thread";
    },
    peers: &[
        "spin:crowded",
        "spin:alone",
        "parking_lot:crowded",
        "parking_lot:alone",
    ],
    method: Method::Own {
        threads: THREADS,
        run,
    },
    threads: Threads::Spread,
    beside: None,
};

/// How many threads a crowd has, whatever `--threads` says.
const THREADS: usize = 32;

/// How many operations a thread does between two looks at whether the run is over.
const BETWEEN: u64 = 16;

/// How many times as long as another experiment's run a crowd's is: each thread shall have several
/// turns.
const CROWDED: u32 = 100;

/// The same of one thread.
const ALONE: u32 = 10;

/// A subject, and what its two cases are called.
struct Way {
    crowded: &'static str,
    alone: &'static str,
    make: fn() -> Box<dyn Measured>,
}

const WAYS: [Way; 8] = [
    Way {
        crowded: "os-assisted:crowded",
        alone: "os-assisted:alone",
        make: || Box::new(Shared::of(domain(Mechanism::Assisted))),
    },
    Way {
        crowded: "k-cas:crowded",
        alone: "k-cas:alone",
        make: || Box::new(Shared::of(domain(Mechanism::Kcas))),
    },
    Way {
        crowded: "map:crowded",
        alone: "map:alone",
        make: || Box::new(Shared::of(HashMap::new())),
    },
    Way {
        crowded: "priority-queue:crowded",
        alone: "priority-queue:alone",
        make: || Box::new(Shared::of(PriorityQueue::new())),
    },
    Way {
        crowded: "page-map:crowded",
        alone: "page-map:alone",
        make: || Box::new(Shared::of(Counts::new())),
    },
    Way {
        crowded: "server:crowded",
        alone: "server:alone",
        make: || Box::new(Shared::of(server(Mechanism::Assisted))),
    },
    Way {
        crowded: "spin:crowded",
        alone: "spin:alone",
        make: || Box::new(Shared::of(Spinning::default())),
    },
    Way {
        crowded: "parking_lot:crowded",
        alone: "parking_lot:alone",
        make: || Box::new(Shared::of(parking_lot::Mutex::new((0, 0)))),
    },
];

fn domain(mechanism: Mechanism) -> Domain<[Padded; 2]> {
    Domain::forced(Default::default(), mechanism)
}

/// An entry counts, for its thread and for those whose entries it found. While all threads have
/// popped one, the queue is empty.
impl Pair for PriorityQueue<u64, u64> {
    type Hand = ();

    fn hand(&self) {}

    #[inline(always)]
    fn add(&self, _hand: &mut (), amount: u64) {
        let count = self.pop().map_or(0, |(_, count)| count) + amount;
        self.insert(count, count)
            .expect("there is memory for an entry");
    }

    fn both(&self) -> (u64, u64) {
        let sum = self.drain().map(|(_, count)| count).sum();
        self.insert(sum, sum).expect("there is memory for an entry");
        (sum, sum)
    }
}

/// Two entries, in buckets of their own or in one.
impl Pair for HashMap<u64, u64> {
    type Hand = ();

    fn hand(&self) {}

    #[inline(always)]
    fn add(&self, _hand: &mut (), amount: u64) {
        for key in [0, 1] {
            self.fetch_update(key, |count| Some(count.unwrap_or_default() + amount))
                .expect("there is memory for an entry");
        }
    }

    fn both(&self) -> (u64, u64) {
        let [a, b] = [0, 1].map(|key| self.get(&key).unwrap_or_default());
        (a, b)
    }
}

/// Two entries of a page map, in one leaf.
struct Counts(PageMap<u64>);

impl Counts {
    fn new() -> Self {
        let map = PageMap::new();
        for page in [0, 1] {
            map.insert(page, 0).expect("there is memory for a table");
        }
        Self(map)
    }
}

impl Pair for Counts {
    type Hand = ();

    fn hand(&self) {}

    #[inline(always)]
    fn add(&self, _hand: &mut (), amount: u64) {
        for page in [0, 1] {
            self.0.update(page, |count| count + amount);
        }
    }

    fn both(&self) -> (u64, u64) {
        let [a, b] = [0, 1].map(|page| self.0.get(page).unwrap_or_default());
        (a, b)
    }
}

/// Something whose CPU time can be measured.
trait Measured {
    /// CPU nanoseconds an operation, of that many threads that do nothing else for that long.
    fn measure(&self, threads: usize, run: Duration) -> Result<f64, Error>;

    /// Whether every operation so far is accounted for.
    fn check(&self) -> Result<(), Fault>;
}

/// A pair, and how many operations it has had.
struct Shared<P> {
    pair: CachePadded<P>,
    operations: AtomicU64,
}

impl<P> Shared<P> {
    fn of(pair: P) -> Self {
        Self {
            pair: CachePadded::new(pair),
            operations: AtomicU64::new(0),
        }
    }
}

impl<P: Pair> Measured for Shared<P> {
    fn measure(&self, threads: usize, run: Duration) -> Result<f64, Error> {
        let cpus = machine::allowed_cpus();
        let (go, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let (spent, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let work = |thread: usize| {
            machine::pin(cpus[thread % cpus.len()]);
            let mut hand = self.pair.hand();
            while !go.load(Ordering::Acquire) {
                thread::yield_now();
            }
            let start = cpu_time();
            let mut operations = 0;
            // Relaxed: it says no more than that the time is over.
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..BETWEEN {
                    self.pair.add(&mut hand, black_box(1));
                }
                operations += BETWEEN;
            }
            // Relaxed: read after the threads have ended.
            spent.fetch_add(cpu_time() - start, Ordering::Relaxed);
            done.fetch_add(operations, Ordering::Relaxed);
        };
        let started = thread::scope(|scope| {
            let spawn = |thread: usize| {
                let thread = thread::Builder::new().spawn_scoped(scope, move || work(thread));
                thread.map(drop)
            };
            let failed = (0..threads).find_map(|thread| Some((thread, spawn(thread).err()?)));
            go.store(true, Ordering::Release);
            if failed.is_none() {
                thread::sleep(run);
            }
            stop.store(true, Ordering::Relaxed);
            failed.map_or(Ok(()), |(started, source)| {
                Err(Error::Thread {
                    started,
                    wanted: threads,
                    source,
                })
            })
        });
        started?;
        let done = done.into_inner();
        self.operations.fetch_add(done, Ordering::Relaxed);
        Ok(spent.into_inner() as f64 / done.max(1) as f64)
    }

    fn check(&self) -> Result<(), Fault> {
        let operations = self.operations.load(Ordering::Relaxed);
        match self.pair.both() {
            (a, b) if a == operations && b == operations => Ok(()),
            (a, b) => {
                let sentence = format!("the words are {a} and {b} where {operations} were added");
                Err(Fault::count(operations, [a, b], sentence))
            }
        }
    }
}

/// The CPU time that this thread has had, in nanoseconds.
fn cpu_time() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel fills in a valid structure; that clock is there on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn run(effort: Effort, advance: &dyn Fn(f64)) -> Result<Results, Error> {
    let subjects = WAYS.each_ref().map(|way| (way.make)());
    let mut values = [(); WAYS.len()].map(|()| [Vec::new(), Vec::new()]);
    let mut order: Vec<_> = (0..WAYS.len()).collect();
    // A fixed seed: two benchmarks of one machine differ by the machine only.
    let mut random = fastrand::Rng::with_seed(1);
    let started = Instant::now();
    for round in 1.. {
        random.shuffle(&mut order);
        for &way in &order {
            for (values, (threads, runs)) in
                values[way].iter_mut().zip([(THREADS, CROWDED), (1, ALONE)])
            {
                values.push(subjects[way].measure(threads, effort.run * runs)?);
            }
        }
        let spent = started.elapsed().as_secs_f64() / effort.budget.as_secs_f64();
        advance(spent.min(1.0));
        if spent >= 1.0 && round >= Effort::MIN_ROUNDS {
            break;
        }
    }
    let mut measured = Results::default();
    for ((way, subject), values) in WAYS.iter().zip(&subjects).zip(values) {
        let fault = subject.check().err();
        for (case, values) in [way.crowded, way.alone].into_iter().zip(values) {
            let unit = "ns/op";
            let series = Series { case, unit, values };
            measured.add(series, fault.clone());
        }
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_that_of_all_threads() {
        let run = Duration::from_millis(20);
        for way in &WAYS {
            let subject = (way.make)();
            for threads in [1, 3] {
                let nanoseconds = subject.measure(threads, run).unwrap();
                assert!(nanoseconds > 0.0 && nanoseconds < 1e9, "{}", way.crowded);
            }
            assert_eq!(subject.check(), Ok(()), "{}", way.crowded);
        }
    }

    #[test]
    fn an_operation_that_is_not_accounted_for_is_found() {
        let shared = Shared::of(Spinning::default());
        shared.pair.add(&mut (), 1);
        let fault = shared.check().unwrap_err();
        assert_eq!(fault.sentence, "the words are 1 and 1 where 0 were added");
    }
}
