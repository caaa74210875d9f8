//! `b91-table2`: B91 4.2: what synchronization makes of a thread package's operations: a spin lock,
//! a mutex that relinquishes the processor, and two threads that take turns by a mutex and a
//! condition variable.
//!
//! The paper's threads were CThreads' on a uniprocessor. Here they are two kernel threads of one
//! CPU. In `spinlock` and `mutexlock` each of them does half of the operations on the same lock;
//! with mechanisms that are atomic on one thread only, each on a lock of its own, and so they take
//! no turns.

use std::hint::black_box;

use atomseq::mutex::{
    Condvar, Interlocked, MutexBy, OnCpu, RawMutex, Restarting, SpinLockBy, TestAndSet,
};
use atomseq_papers::emulation::{Call, Trap};
use atomseq_papers::reservation::{Bundle, Bundled, OneCpu, PerLock, Unfenced};
use crossbeam_utils::CachePadded;

use super::{Experiment, Method, Threads, Workload, cases};
use crate::bench::beside::Beside;
use crate::bench::engine::Subject;
use crate::bench::fault::Fault;
use crate::bench::signals;
use crate::bench::workloads::locking::{Contention, Exclusive, Hold, Tally};
use crate::error::Refused;
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
            ("pingpong", "PingPong"),
        ],
        counterparts: &[("emulation-trap", "Emulation"), ("cpu", "R.A.S")],
        arguments: &[("Emulation", "R.A.S")],
        sections: &["4.2"],
        note: "ForkTest is not measured here: it timed how CThreads made and ended its user-level threads.",
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
        let turns = CachePadded::new(lock_api::Mutex::new(0));
        let taken = Condvar::new();
        OnOneCpu::boxed(Self { turns, taken })
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

#[cfg(test)]
mod tests {
    use std::thread;

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
}
