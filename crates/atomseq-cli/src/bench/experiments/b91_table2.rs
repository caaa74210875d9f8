//! `b91-table2`: B91 4.2: what synchronization makes of a thread package's operations: a spin lock,
//! a mutex that relinquishes the processor, threads that each make the next one and end, and two
//! threads that take turns by a mutex and a condition variable. `b91-table2-counts` counts the
//! test-and-sets of those turns, and what share of the time they take.
//!
//! The paper's threads were CThreads' on a uniprocessor. Here they are two kernel threads of one
//! CPU. In `spinlock` and `mutexlock` each of them does half of the operations on the same lock;
//! with mechanisms that are atomic on one thread only, each on a lock of its own, and so they take
//! no turns. In `forktest` the threads are coroutines, in a chain on each of the two kernel
//! threads.

use std::hint::black_box;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use atomseq::mutex::{
    Condvar, Interlocked, MutexBy, OnCpu, RawMutex, Restarting, SpinLockBy, TestAndSet,
};
use atomseq_papers::emulation::{Call, Trap};
use atomseq_papers::reservation::{Bundle, Bundled, OneCpu, PerLock, Unfenced};
use atomseq_threads::coroutine;
use crossbeam_utils::CachePadded;

use super::threads::in_coroutine;
use super::{Experiment, Method, Threads, Workload, cases};
use crate::bench::beside::Beside;
use crate::bench::crew::measure_aside;
use crate::bench::engine::{Effort, Subject};
use crate::bench::fault::{Fault, Results};
use crate::bench::record::Series;
use crate::bench::signals;
use crate::bench::workloads::locking::{Contention, Exclusive, Hold, Tally};
use crate::error::{Error, Refused};
use crate::machine;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "b91-table2",
    about: "B91's table 2: locks and turns of two threads of one CPU, by each mechanism",
    cases: cases! {
        "spinlock:restart",
            "SpinLock, restarted if a signal handler interrupts it, a lock for each thread",
            |_| Apart::<SpinLockBy<Restarting, Tally>>::boxed(THREADS);
        "spinlock:cpu", "SpinLock, restarted by the kernel, for the threads of one CPU",
            |_| together::<SpinLockBy<OnCpu, Tally>>();
        "spinlock:interlocked", "SpinLock, an interlocked exchange",
            |_| together::<SpinLockBy<Interlocked, Tally>>();
        "spinlock:emulation-trap",
            "SpinLock, an undefined instruction, which a signal handler emulates",
            |_| together::<SpinLockBy<Trap, Tally>>();
        "spinlock:emulation-call", "SpinLock, a system call that compares and swaps",
            |_| together::<SpinLockBy<Call, Tally>>();
        "spinlock:reservation-a",
            "SpinLock, Lamport's algorithm, one instance for each lock, without fences",
            |_| together::<SpinLockBy<PerLock<OneCpuOnly>, Tally>>();
        "spinlock:reservation-b",
            "SpinLock, test-and-set inside one instance for all locks, without fences",
            |_| together::<SpinLockBy<Bundled<OneCpuOnly>, Tally>>();
        "mutexlock:restart",
            "Mutex, restarted if a signal handler interrupts it, a lock for each thread",
            |_| Apart::<MutexBy<Restarting, Tally>>::boxed(THREADS);
        "mutexlock:cpu", "Mutex, restarted by the kernel, for the threads of one CPU",
            |_| together::<MutexBy<OnCpu, Tally>>();
        "mutexlock:interlocked", "Mutex, an interlocked exchange",
            |_| together::<MutexBy<Interlocked, Tally>>();
        "mutexlock:emulation-trap",
            "Mutex, an undefined instruction, which a signal handler emulates",
            |_| together::<MutexBy<Trap, Tally>>();
        "mutexlock:emulation-call", "Mutex, a system call that compares and swaps",
            |_| together::<MutexBy<Call, Tally>>();
        "mutexlock:reservation-a",
            "Mutex, Lamport's algorithm, one instance for each lock, without fences",
            |_| together::<MutexBy<PerLock<OneCpuOnly>, Tally>>();
        "mutexlock:reservation-b",
            "Mutex, test-and-set inside one instance for all locks, without fences",
            |_| together::<MutexBy<Bundled<OneCpuOnly>, Tally>>();
        "forktest:restart",
            "coroutine::spawn, and a Mutex around a list of descriptors: restarted if a signal handler interrupts it",
            |_| Forks::<Restarting>::boxed(THREADS);
        "forktest:cpu",
            "coroutine::spawn, and a Mutex around a list of descriptors: restarted by the kernel",
            |_| Forks::<OnCpu>::boxed(THREADS);
        "forktest:interlocked",
            "coroutine::spawn, and a Mutex around a list of descriptors: an interlocked exchange",
            |_| Forks::<Interlocked>::boxed(THREADS);
        "forktest:emulation-trap",
            "coroutine::spawn, and a Mutex around a list of descriptors: an undefined instruction, which a signal handler emulates",
            |_| Forks::<Trap>::boxed(THREADS);
        "forktest:emulation-call",
            "coroutine::spawn, and a Mutex around a list of descriptors: a system call that compares and swaps",
            |_| Forks::<Call>::boxed(THREADS);
        "forktest:reservation-a",
            "coroutine::spawn, and a Mutex around a list of descriptors: Lamport's algorithm, one instance for each lock, without fences",
            |_| Forks::<PerLock<OneCpuOnly>>::boxed(THREADS);
        "forktest:reservation-b",
            "coroutine::spawn, and a Mutex around a list of descriptors: test-and-set inside one instance for all locks, without fences",
            |_| Forks::<Bundled<OneCpuOnly>>::boxed(THREADS);
        "pingpong:cpu", "Mutex and Condvar, restarted by the kernel", |_| Turns::<OnCpu>::boxed();
        "pingpong:interlocked", "Mutex and Condvar, an interlocked exchange",
            |_| Turns::<Interlocked>::boxed();
        "pingpong:emulation-trap",
            "Mutex and Condvar, an undefined instruction, which a signal handler emulates",
            |_| Turns::<Trap>::boxed();
        "pingpong:emulation-call", "Mutex and Condvar, a system call that compares and swaps",
            |_| Turns::<Call>::boxed();
        "pingpong:reservation-a",
            "Mutex and Condvar, Lamport's algorithm, one instance for each lock, without fences",
            |_| Turns::<PerLock<OneCpuOnly>>::boxed();
        "pingpong:reservation-b",
            "Mutex and Condvar, test-and-set inside one instance for all locks, without fences",
            |_| Turns::<Bundled<OneCpuOnly>>::boxed();
    },
    peers: &[],
    method: Method::Placed {
        threads: THREADS,
        workloads: &[
            Workload {
                name: "spinlock",
                cpus: 1,
                length: 1,
            },
            Workload {
                name: "mutexlock",
                cpus: 1,
                length: 1,
            },
            Workload {
                name: "forktest",
                cpus: 1,
                length: 1,
            },
            Workload {
                name: "pingpong",
                cpus: 1,
                length: 1,
            },
        ],
    },
    threads: Threads::Alone,
    beside: Some(&Beside {
        paper: "B91",
        table: Some("2"),
        programs: &[
            ("spinlock", "Spinlock"),
            ("mutexlock", "MutexLock"),
            ("forktest", "ForkTest"),
            ("pingpong", "PingPong"),
        ],
        counterparts: &[("emulation-trap", "Emulation"), ("cpu", "R.A.S")],
        arguments: &[("Emulation", "R.A.S")],
        sections: &["4.2"],
        note: "ForkTest made and ended CThreads. Here it makes and ends coroutines, whose package needs no lock; so the mutex \
               around the list of their descriptors, taken at the fork and at the end, stands for CThreads' own. \
               B91's table 3 is printed by the programs demo-applications (table3) and demo-procon.",
        ..Beside::NOTHING
    }),
};

/// What synchronization takes of PingPong.
pub const COUNTS: Experiment = Experiment {
    name: "b91-table2-counts",
    about: "test-and-sets in a cycle of b91-table2's pingpong, and their share of its time (always 2 threads)",
    cases: cases! {
        "test-and-sets:cpu", "restarted by the kernel: attempts in a cycle";
        "test-and-sets:interlocked", "an interlocked exchange";
        "test-and-sets:emulation-trap", "an undefined instruction, which a signal handler emulates";
        "test-and-sets:emulation-call", "a system call that compares and swaps";
        "test-and-sets:reservation-a", "Lamport's algorithm, one instance for each lock";
        "test-and-sets:reservation-b", "test-and-set inside one instance for all locks";
        "share:cpu", "restarted by the kernel: those attempts at the cost of one alone, in per cent of a cycle";
        "share:interlocked", "an interlocked exchange";
        "share:emulation-trap", "an undefined instruction, which a signal handler emulates";
        "share:emulation-call", "a system call that compares and swaps";
        "share:reservation-a", "Lamport's algorithm, one instance for each lock";
        "share:reservation-b", "test-and-set inside one instance for all locks";
    },
    peers: &[],
    method: Method::Own {
        threads: THREADS,
        run: counts,
    },
    threads: Threads::Alone,
    beside: Some(&Beside {
        paper: "B91",
        sections: &["4.2"],
        note: "A cycle of B91's PingPong has 26 test-and-sets, most of them inside of CThreads' condition variables. Here a cycle is two \
               turns, whose condition variable has no test-and-set of its own.",
        ..Beside::NOTHING
    }),
};

/// Those that take turns.
const THREADS: usize = 2;

/// The threads that are measured.
struct Measured;

/// For them only.
type OneCpuOnly = Unfenced<Measured>;

// SAFETY: all threads that use this group are on the first CPU that this process may use and bound
// to it, or none works: the crew pins them there, and `OnOneCpu` makes sure of it. Experiments run
// one after the other, and there is one test.
unsafe impl OneCpu for Measured {
    fn bundle() -> &'static Bundle {
        static BUNDLE: Bundle = Bundle::new();
        &BUNDLE
    }
}

/// A subject whose threads have to stay on one CPU.
struct OnOneCpu(Box<dyn Subject>);

impl OnOneCpu {
    fn boxed(subject: impl Subject + 'static) -> Box<dyn Subject> {
        Box::new(Self(Box::new(subject)))
    }
}

impl Subject for OnOneCpu {
    fn prepare(&self, thread: usize) -> Result<(), Refused> {
        let cpus = machine::allowed_cpus().len();
        if cpus != 1 {
            let what = "pin a thread to a CPU";
            return Err(Refused { what, errno: 0 });
        }
        signals::prove()?;
        self.0.prepare(thread)
    }

    fn run(&self, thread: usize, operations: u64) {
        self.0.run(thread, operations);
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        self.0.check(operations)
    }
}

/// Both threads on one lock.
fn together<L: Exclusive + Default + Sync + 'static>() -> Box<dyn Subject> {
    let subject = Contention::<L>::shared(Hold::NONE, THREADS as u64);
    Box::new(OnOneCpu(subject))
}

/// Every thread enters a lock of its own, for locks that are bound to their thread; they share the
/// operations of one.
struct Apart<L> {
    locks: Vec<CachePadded<L>>,
}

// SAFETY: a thread uses the lock of its own number only, and `check` is called when no thread
// works.
unsafe impl<L> Sync for Apart<L> {}

impl<L: Exclusive + Default + 'static> Apart<L> {
    fn boxed(threads: usize) -> Box<dyn Subject> {
        let locks = (0..threads).map(|_| CachePadded::default()).collect();
        OnOneCpu::boxed(Self { locks })
    }
}

impl<L: Exclusive> Subject for Apart<L> {
    fn run(&self, thread: usize, operations: u64) {
        let lock: &L = black_box(&self.locks[thread]);
        for _ in 0..operations / self.locks.len() as u64 {
            lock.with(|tally| tally.count());
        }
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        let (mut result, threads) = (Ok(()), self.locks.len() as u64);
        for lock in &self.locks {
            lock.with(|tally| result = tally.expect(operations / threads / threads));
            result.clone()?;
        }
        result
    }
}

/// Two threads take turns. An operation is one of each.
struct Turns<M> {
    /// How many turns there were. Even: it is the first thread's.
    turns: CachePadded<lock_api::Mutex<RawMutex<M>, u64>>,
    taken: Condvar,
}

impl<M: TestAndSet + Sync + 'static> Turns<M> {
    fn boxed() -> Box<dyn Subject> {
        OnOneCpu::boxed(Self::default())
    }
}

impl<M: TestAndSet> Default for Turns<M> {
    fn default() -> Self {
        let turns = CachePadded::new(lock_api::Mutex::new(0));
        let taken = Condvar::new();
        Self { turns, taken }
    }
}

impl<M: TestAndSet + Sync> Subject for Turns<M> {
    fn run(&self, thread: usize, operations: u64) {
        let mine = thread as u64;
        for _ in 0..operations {
            let mut turns = self.turns.lock();
            self.taken
                .wait_while(&mut turns, |turns| *turns % 2 != mine);
            *turns += 1;
            drop(turns);
            self.taken.notify_one();
        }
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        let turns = *self.turns.lock();
        (turns == operations).then_some(()).ok_or_else(|| {
            let sentence = format!("there were {turns} turns of {operations}");
            Fault::count(operations, [turns], sentence)
        })
    }
}

/// The free descriptors, and the number of threads that have finished.
#[derive(Default)]
struct Descriptors {
    free: Vec<usize>,
    ended: u64,
}

/// Coroutines of which each makes the next one and finishes, with descriptors under a lock by `M`.
/// Each kernel thread has its own, and does its share of the operations.
struct Forks<M> {
    pools: Vec<CachePadded<Rc<Pool<M>>>>,
}

type Pool<M> = MutexBy<M, Descriptors>;

// SAFETY: a thread uses the pool of its own number only, and its coroutines' references to it are
// gone when `run` returns. `check` is called when no thread works.
unsafe impl<M> Sync for Forks<M> {}

impl<M: TestAndSet + 'static> Forks<M> {
    fn boxed(threads: usize) -> Box<dyn Subject> {
        let pool = |_| {
            let free = vec![0, 1];
            let descriptors = Descriptors { free, ended: 0 };
            CachePadded::new(Rc::new(Pool::<M>::new(descriptors)))
        };
        OnOneCpu::boxed(Self {
            pools: (0..threads).map(pool).collect(),
        })
    }

    /// Runs a thread, after which `left - 1` others follow.
    fn live(pool: &Rc<Pool<M>>, left: u64) {
        let descriptor = pool.lock().free.pop();
        if left > 1 {
            let pool = Rc::clone(pool);
            drop(coroutine::spawn(move || Self::live(&pool, left - 1)));
        }
        let mut descriptors = pool.lock();
        descriptors.free.extend(descriptor);
        descriptors.ended += u64::from(descriptor.is_some());
    }
}

impl<M: TestAndSet + 'static> Subject for Forks<M> {
    fn run(&self, thread: usize, operations: u64) {
        let forks = operations / self.pools.len() as u64;
        in_coroutine(|| Self::live(&self.pools[thread], forks));
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        let expected = operations / self.pools.len() as u64;
        let ended = self.pools.iter().map(|pool| pool.lock().ended).sum();
        (ended == expected).then_some(()).ok_or_else(|| {
            let sentence = format!("{ended} of {expected} threads have ended");
            Fault::count(expected, [ended], sentence)
        })
    }
}

/// A mechanism that counts how often it is tried.
struct Tried<M> {
    flag: M,
    tries: AtomicU64,
}

// SAFETY: all operations on the flag are the mechanism's.
unsafe impl<M: TestAndSet> TestAndSet for Tried<M> {
    type Scope = M::Scope;
    type GuardMarker = M::GuardMarker;
    const NAME: &'static str = M::NAME;
    const CLEAR: Self = Tried {
        flag: M::CLEAR,
        tries: AtomicU64::new(0),
    };

    fn test_and_set(&self) -> bool {
        // Relaxed: read when no thread works.
        self.tries.fetch_add(1, Ordering::Relaxed);
        self.flag.test_and_set()
    }

    unsafe fn clear(&self) {
        // SAFETY: the caller holds the flag.
        unsafe { self.flag.clear() }
    }

    fn is_set(&self) -> bool {
        self.flag.is_set()
    }

    unsafe fn clear_then_look(&self) {
        // SAFETY: the caller holds the flag.
        unsafe { self.flag.clear_then_look() }
    }

    fn waiter_barrier(&self) {
        self.flag.waiter_barrier();
    }

    fn has_waiter_barrier(&self) -> bool {
        self.flag.has_waiter_barrier()
    }
}

/// A mechanism whose test-and-sets are counted.
struct Way {
    count: &'static str,
    share: &'static str,
    measure: fn(u64) -> Result<(f64, f64), Failure>,
}

/// Why there is no count.
enum Failure {
    Refused(Refused),
    Wrong(Fault),
}

const WAYS: [Way; 6] = [
    Way {
        count: "test-and-sets:cpu",
        share: "share:cpu",
        measure: tried::<OnCpu>,
    },
    Way {
        count: "test-and-sets:interlocked",
        share: "share:interlocked",
        measure: tried::<Interlocked>,
    },
    Way {
        count: "test-and-sets:emulation-trap",
        share: "share:emulation-trap",
        measure: tried::<Trap>,
    },
    Way {
        count: "test-and-sets:emulation-call",
        share: "share:emulation-call",
        measure: tried::<Call>,
    },
    Way {
        count: "test-and-sets:reservation-a",
        share: "share:reservation-a",
        measure: tried::<PerLock<OneCpuOnly>>,
    },
    Way {
        count: "test-and-sets:reservation-b",
        share: "share:reservation-b",
        measure: tried::<Bundled<OneCpuOnly>>,
    },
];

/// The cycles of a round.
const CYCLES: u64 = 1_000;

fn counts(effort: Effort, advance: &dyn Fn(f64)) -> Result<Results, Error> {
    measure_aside(advance, |shares| {
        let mut values = WAYS.each_ref().map(|_| (Vec::new(), Vec::new(), None));
        let start = Instant::now();
        for round in 0..effort.rounds {
            if round >= Effort::MIN_ROUNDS && start.elapsed() >= effort.budget {
                break;
            }
            for (way, (tries, share, fault)) in WAYS.iter().zip(&mut values) {
                match (way.measure)(CYCLES) {
                    Ok(value) => {
                        tries.push(value.0);
                        share.push(value.1);
                    }
                    Err(Failure::Refused(refused)) => return Err(Error::Refused(refused)),
                    Err(Failure::Wrong(wrong)) => *fault = Some(wrong),
                }
            }
            // The receiver may be gone, which is no reason to stop.
            let _ = shares.send((round + 1) as f64 / effort.rounds as f64);
        }
        let mut results = Results::default();
        let mut shares = Results::default();
        for (way, (tries, share, fault)) in WAYS.iter().zip(values) {
            let series = |case, unit, values| Series { case, unit, values };
            results.add(series(way.count, "times", tries), fault.clone());
            shares.add(series(way.share, "%", share), fault);
        }
        results.append(shares);
        Ok(results)
    })
}

/// Returns the test-and-sets of a cycle, and the time that they would take alone, in per cent of
/// the cycle's time.
fn tried<M: TestAndSet + Sync + Send + 'static>(cycles: u64) -> Result<(f64, f64), Failure> {
    let counted = Turns::<Tried<M>>::default();
    cycled(&counted, cycles)?;
    // SAFETY: no thread uses the lock.
    let flag = unsafe { counted.turns.raw() }.mechanism();
    // Relaxed: the threads have been joined.
    let tries = flag.tries.load(Ordering::Relaxed) as f64 / cycles as f64;
    let cycle = cycled(&Turns::<M>::default(), cycles)?.as_secs_f64() / cycles as f64;
    let flag = M::CLEAR;
    let begin = Instant::now();
    for _ in 0..cycles {
        let flag = black_box(&flag);
        if flag.test_and_set() {
            // SAFETY: just set.
            unsafe { flag.clear() };
        }
    }
    let alone = begin.elapsed().as_secs_f64() / cycles as f64;
    Ok((tries, 100.0 * tries * alone / cycle))
}

/// Returns the time of that many cycles, by two threads on this thread's CPU.
fn cycled<M: TestAndSet + Sync + Send + 'static>(
    turns: &Turns<M>,
    cycles: u64,
) -> Result<Duration, Failure> {
    let (ready, begin) = (OnOneCpu(Box::new(Ready)), Instant::now());
    ready.prepare(0).map_err(Failure::Refused)?;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || turns.run(thread, cycles));
        }
    });
    let took = begin.elapsed();
    turns
        .check(cycles * THREADS as u64)
        .map_err(Failure::Wrong)?;
    Ok(took)
}

/// A subject that does nothing: only its CPU is prepared.
struct Ready;

impl Subject for Ready {
    fn run(&self, _thread: usize, _operations: u64) {}

    fn check(&self, _operations: u64) -> Result<(), Fault> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::GRAIN;

    #[test]
    fn every_case_counts_and_takes_turns() {
        for case in EXPERIMENT.make(THREADS, |_| true) {
            thread::scope(|scope| {
                for thread in 0..THREADS {
                    let subject = &case.subject;
                    scope.spawn(move || {
                        assert!(machine::pin(machine::allowed_cpus()[0]));
                        subject.prepare(thread).unwrap();
                        subject.run(thread, 16 * GRAIN);
                    });
                }
            });
            let (right, wrong) = (32 * GRAIN, 34 * GRAIN);
            assert_eq!(case.subject.check(right), Ok(()), "{}", case.name);
            assert!(case.subject.check(wrong).is_err(), "{}", case.name);
        }
    }

    #[test]
    fn each_cycle_has_two_test_and_sets_at_least() {
        let effort = Effort {
            run: Duration::from_micros(200),
            rounds: 1,
            warm_up: 0,
            budget: Duration::from_secs(1),
            crowds: 1,
        };
        let results = counts(effort, &|_| ()).unwrap();
        assert!(results.faults.is_empty(), "{:?}", results.faults);
        assert_eq!(results.series.len(), COUNTS.cases.len());
        for series in results.series {
            let least = if series.unit == "times" { 2.0 } else { 0.0 };
            assert!(series.values[0] >= least, "{series:?}");
        }
    }
}
