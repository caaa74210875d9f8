//! `b91-table1`: B91 4.1: enter a critical section by test-and-set, count, leave it by a clear, on
//! one thread, so that the test-and-set always succeeds. `loop` is the loop around it, which B91
//! took off.
//!
//! As there, emulation and reservation are called out of line, a restartable test-and-set is
//! measured both called (`branch`) and inlined, and only the test-and-set is called: the clear is
//! inline. B91's reservation (a) is Lamport's algorithm as printed, which has something to call at
//! the end as well.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use atomseq::mutex::{Interlocked, Masked, OnCpu, Restarting, Rolling, TestAndSet};
use atomseq_papers::emulation::{Call, Trap};
use atomseq_papers::reservation::{Bundle, Bundled, Fenced, Lamport, OneCpu, Strength, Unfenced};
use crossbeam_utils::CachePadded;

use super::{Experiment, Method, Threads, Workload, cases};
use crate::bench::beside::Beside;
use crate::bench::engine::Subject;
use crate::bench::fault::Fault;
use crate::bench::signals;
use crate::bench::workloads::locking::Tally;
use crate::error::Refused;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "b91-table1",
    about: "B91's table 1: enter, count, leave, on one thread",
    cases: cases! {
        "restart-inlined", "restarted if a signal handler interrupts it",
            |_| Passes::<Inlined<Restarting>>::boxed();
        "restart-branch", "restarted if a signal handler interrupts it, called",
            |_| Passes::<Called<Restarting>>::boxed();
        "cpu-inlined", "restarted by the kernel, for the threads of one CPU",
            |_| Passes::<Inlined<OnCpu>>::boxed();
        "cpu-branch", "restarted by the kernel, for the threads of one CPU, called",
            |_| Passes::<Called<OnCpu>>::boxed();
        "rolling-inlined", "rolled forward if a signal handler interrupts it",
            |_| Passes::<Inlined<Rolling>>::boxed();
        "masked-inlined", "under signal::mask()", |_| Passes::<Inlined<Masked>>::boxed();
        "emulation-trap", "an undefined instruction, which a signal handler emulates",
            |_| Passes::<Inlined<Trap>>::boxed();
        "emulation-call", "a system call that compares and swaps: FUTEX_TRYLOCK_PI",
            |_| Passes::<Inlined<Call>>::boxed();
        "reservation-a",
            "Lamport's algorithm, one instance for each lock, for the threads of one CPU",
            |_| Passes::<Printed<OneCpuOnly>>::boxed();
        "reservation-b",
            "test-and-set inside one instance for all locks, for the threads of one CPU",
            |_| Passes::<Inlined<Bundled<OneCpuOnly>>>::boxed();
        "reservation-a-fenced", "reservation-a with the fences that threads of several CPUs need",
            |_| Passes::<Printed<Fenced>>::boxed();
        "reservation-b-fenced", "reservation-b with those fences",
            |_| Passes::<Inlined<Bundled<Fenced>>>::boxed();
        "interlocked", "an interlocked exchange", |_| Passes::<Inlined<Interlocked>>::boxed();
        "loop", "the loop alone", |_| Box::new(Loop::default());
    },
    peers: &["loop"],
    method: Method::Placed {
        threads: 1,
        workloads: &[Workload::WHOLE],
    },
    threads: Threads::Alone,
    beside: Some(&Beside {
        paper: "B91",
        table: Some("1"),
        programs: &[("", "enter, count, leave")],
        counterparts: &[
            ("cpu-branch", "Restartable Atomic Sequences (branch)"),
            ("restart-branch", "Restartable Atomic Sequences (branch)"),
            ("cpu-inlined", "Restartable Atomic Sequences (inlined)"),
            ("restart-inlined", "Restartable Atomic Sequences (inlined)"),
            ("emulation-trap", "Kernel Emulation"),
            ("reservation-a", "Software-reservation (a)"),
            ("reservation-b", "Software-reservation (b)"),
        ],
        baseline: Some("loop"),
        arguments: &[
            ("Kernel Emulation", "Restartable Atomic Sequences (inlined)"),
            (
                "Software-reservation (a)",
                "Restartable Atomic Sequences (inlined)",
            ),
            (
                "Software-reservation (b)",
                "Restartable Atomic Sequences (inlined)",
            ),
        ],
        reasons: &[
            (
                ("Software-reservation (a)", "Software-reservation (b)"),
                "(a) looks its thread's number up twice and (b) once, which decided it there; here the number lies at a fixed \
                 distance from the thread pointer, and (b)'s two more stores and its flag decide",
            ),
            (
                (
                    "Restartable Atomic Sequences (branch)",
                    "Restartable Atomic Sequences (inlined)",
                ),
                "a predicted call and return overlap with what is around them",
            ),
        ],
        sections: &["2.2", "2.3", "2.4", "3.1"],
        note: "The cpu- rows exclude the threads of a CPU, as B91's sequences did; the restart- rows exclude only the signal \
               handlers of one thread. The time of the loop alone is taken off here, as it was there. There the kernel itself emulated; here a signal \
               handler does, whose delivery and return the thread pays for as well.",
        ..Beside::NOTHING
    }),
};

type OneCpuOnly = Unfenced<Measured>;

/// The one thread that is measured.
struct Measured;

// SAFETY: no two threads use this group, so none on different CPUs: experiments run one after the
// other, this one has one thread, and one test.
unsafe impl OneCpu for Measured {
    fn bundle() -> &'static Bundle {
        static BUNDLE: Bundle = Bundle::new();
        &BUNDLE
    }
}

/// The way into a critical section and out of it.
pub trait Door: Default + 'static {
    /// Enters; returns whether the section was free.
    fn enter(&self) -> bool;

    /// Leaves.
    ///
    /// # Safety
    ///
    /// The caller has entered.
    unsafe fn leave(&self);
}

/// A test-and-set that is part of the code, and a clear.
pub struct Inlined<M>(M);

/// A test-and-set that is called, and a clear that is part of the code.
pub struct Called<M>(M);

macro_rules! door {
    ($door:ident #[$inline:meta]) => {
        impl<M: TestAndSet> Default for $door<M> {
            fn default() -> Self {
                Self(M::CLEAR)
            }
        }

        impl<M: TestAndSet + 'static> Door for $door<M> {
            #[$inline]
            fn enter(&self) -> bool {
                self.0.test_and_set()
            }

            #[inline(always)]
            unsafe fn leave(&self) {
                // SAFETY: a caller that has entered has set it.
                unsafe { self.0.clear() }
            }
        }
    };
}

door!(Inlined #[inline(always)]);
door!(Called #[inline(never)]);

/// Lamport's algorithm as printed: it waits instead of failing.
struct Printed<S>(Lamport<S>);

impl<S> Default for Printed<S> {
    fn default() -> Self {
        Self(Lamport::new())
    }
}

impl<S: Strength> Door for Printed<S> {
    #[inline(always)]
    fn enter(&self) -> bool {
        self.0.enter();
        true
    }

    #[inline(always)]
    unsafe fn leave(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.leave() }
    }
}

/// A thread goes in, counts and goes out, again and again.
pub struct Passes<D> {
    section: CachePadded<(D, Tally)>,
}

// SAFETY: one thread runs it, and `check` is called when that thread does not work: `Placed` has
// them so, and the test.
unsafe impl<D> Sync for Passes<D> {}

impl<D: Door> Passes<D> {
    /// The subject, for one thread.
    pub fn boxed() -> Box<dyn Subject> {
        let section = CachePadded::default();
        Box::new(Self { section })
    }
}

impl<D: Door> Subject for Passes<D> {
    fn prepare(&self, _thread: usize) -> Result<(), Refused> {
        signals::prove()?;
        Ok(())
    }

    fn run(&self, _thread: usize, operations: u64) {
        let (door, tally) = black_box(&*self.section);
        for _ in 0..operations {
            if door.enter() {
                tally.count();
                // SAFETY: this thread has just gone in.
                unsafe { door.leave() };
            }
        }
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        self.section.1.expect(operations)
    }
}

/// A loop that does nothing.
#[derive(Default)]
pub struct Loop {
    done: AtomicU64,
}

impl Subject for Loop {
    fn run(&self, _thread: usize, operations: u64) {
        for pass in 0..operations {
            black_box(pass);
        }
        // Relaxed: a count, read after the threads have met at the crew's mutex.
        self.done.fetch_add(operations, Ordering::Relaxed);
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        let done = self.done.load(Ordering::Relaxed);
        (done == operations).then_some(()).ok_or_else(|| {
            let sentence = format!("{done} passes of {operations}");
            Fault::count(operations, [done], sentence)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::GRAIN;

    /// Refuses every entry but the first.
    #[derive(Default)]
    struct Shut(AtomicU64);

    impl Door for Shut {
        fn enter(&self) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed) == 0
        }

        unsafe fn leave(&self) {}
    }

    #[test]
    fn every_case_goes_in_each_time() {
        for case in EXPERIMENT.make(1, |_| true) {
            case.subject.prepare(0).unwrap();
            case.subject.run(0, GRAIN);
            assert_eq!(case.subject.check(GRAIN), Ok(()), "{}", case.name);
        }
    }

    #[test]
    fn a_section_that_was_not_entered_is_found() {
        let case = Passes::<Shut>::boxed();
        case.run(0, GRAIN);
        let fault = case.check(GRAIN).unwrap_err();
        assert_eq!(fault.sentence, "1 of 64 critical sections were counted");
    }
}
