//! `b91-table1`: B91 4.1: enter a critical section by test-and-set, count, leave it by a clear, on one thread, so that the
//! test-and-set always succeeds. `loop` is the loop around it, which B91 took off.
//!
//! As there, emulation and reservation are called out of line, a restartable test-and-set is measured both called (`branch`) and
//! inlined, and only the test-and-set is called: the clear is inline.

use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use atomseq::mutex::{Interlocked, Masked, Restarting, Rolling, TestAndSet};
use crossbeam_utils::CachePadded;

use super::{Experiment, Method, Threads};
use crate::bench::beside::Beside;
use crate::bench::engine::{Case, Subject};
use crate::bench::locking::Tally;
use crate::bench::signals;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "b91-table1",
    about: "B91's table 1: enter, count, leave, on one thread",
    structure: "mutex::TestAndSet",
    operation: "a critical section by",
    cases: &[
        (
            "restart-inlined",
            "restarted if a signal handler interrupts it",
        ),
        ("restart-branch", "the same, called"),
        (
            "rolling-inlined",
            "rolled forward if a signal handler interrupts it",
        ),
        ("masked-inlined", "under signal::mask()"),
        ("interlocked", "an interlocked exchange"),
        ("loop", "the loop alone"),
    ],
    method: Method::Timed(cases),
    threads: Threads::Alone,
    beside: Some(&Beside {
        paper: "B91",
        table: Some("1"),
        programs: &[("", "enter, count, leave")],
        counterparts: &[
            ("restart-branch", "Restartable Atomic Sequences (branch)"),
            ("restart-inlined", "Restartable Atomic Sequences (inlined)"),
        ],
        baseline: Some("loop"),
        differences: &[],
        arguments: &[],
        reasons: &[],
        sections: &["2.2", "2.3", "2.4", "3.1"],
        note: "The time of the loop alone is taken off here, as it was there.",
    }),
};

fn cases(threads: usize) -> Vec<Case> {
    vec![
        Passes::<Restarting, Inlined>::case("restart-inlined", threads),
        Passes::<Restarting, Called>::case("restart-branch", threads),
        Passes::<Rolling, Inlined>::case("rolling-inlined", threads),
        Passes::<Masked, Inlined>::case("masked-inlined", threads),
        Passes::<Interlocked, Inlined>::case("interlocked", threads),
        Case::new("loop", Loop::default()),
    ]
}

/// How code comes to the test-and-set.
pub trait Linkage: 'static {
    /// Sets the flag; true if it was clear.
    fn test_and_set<M: TestAndSet>(flag: &M) -> bool;
}

/// It is part of the code.
pub struct Inlined;

impl Linkage for Inlined {
    #[inline(always)]
    fn test_and_set<M: TestAndSet>(flag: &M) -> bool {
        flag.test_and_set()
    }
}

/// It is a function, the same for all.
pub struct Called;

impl Linkage for Called {
    #[inline(never)]
    fn test_and_set<M: TestAndSet>(flag: &M) -> bool {
        flag.test_and_set()
    }
}

/// Every thread enters, counts and leaves on a flag of its own: of what is atomic on one thread or CPU, others can share
/// nothing.
pub struct Passes<M, L> {
    sections: Vec<CachePadded<Section<M>>>,
    linkage: PhantomData<L>,
}

struct Section<M> {
    flag: M,
    tally: Tally,
}

// SAFETY: a thread uses the section of its own number only, and `check` is called when no thread works.
unsafe impl<M, L> Sync for Passes<M, L> {}

impl<M: TestAndSet + 'static, L: Linkage> Passes<M, L> {
    /// The case of that name for so many threads.
    pub fn case(name: &'static str, threads: usize) -> Case {
        let section = |_| {
            CachePadded::new(Section {
                flag: M::CLEAR,
                tally: Tally::default(),
            })
        };
        let sections = (0..threads).map(section).collect();
        let linkage = PhantomData;
        Case::new(name, Self { sections, linkage })
    }
}

impl<M: TestAndSet, L: Linkage> Subject for Passes<M, L> {
    fn prepare(&self, _thread: usize) {
        signals::prove();
    }

    fn run(&self, thread: usize, operations: u64) {
        let section: &Section<M> = black_box(&self.sections[thread]);
        for _ in 0..operations {
            if L::test_and_set(&section.flag) {
                section.tally.count();
                // SAFETY: this thread has just set it.
                unsafe { section.flag.clear() };
            }
        }
    }

    fn check(&self, operations: u64) -> Result<(), String> {
        let totals = self.sections.iter().map(|section| section.tally.total());
        let total: u64 = totals.sum();
        if self.sections.iter().any(|section| section.flag.is_set()) {
            return Err("a critical section was not left".to_string());
        }
        match total == operations {
            true => Ok(()),
            false => Err(format!("it was entered {total} times of {operations}")),
        }
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

    fn check(&self, operations: u64) -> Result<(), String> {
        let done = self.done.load(Ordering::Relaxed);
        (done == operations)
            .then_some(())
            .ok_or_else(|| format!("{done} passes of {operations}"))
    }
}
