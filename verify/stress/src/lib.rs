//! Tests of the real library by real threads, under all that interrupts a sequence.
//!
//! The stress engine of `atomseq torture` runs most of them: `tests/conservation.rs` runs its
//! targets on each path of the library, and [`exclusion`] runs each lock under the schedule of its
//! scope. [`storm`] sends a thread as many signals as possible, while threads and processes start
//! and end.
#![cfg(target_os = "linux")]

#[cfg(atomseq_sections)]
pub mod controls;
#[cfg(atomseq_sections)]
pub mod exclusion;
#[cfg(atomseq_sections)]
pub mod storm;

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use atomseq_stress::engine::Options;
use atomseq_stress::engine::watch::{self, Goal};
use atomseq_stress::{system, targets};
use verify_support::number_from_env;

/// Returns how long something should take, which usually takes so long: `ATOMSEQ_STRESS_FACTOR`
/// times.
pub fn lengthened(usual: Duration) -> Duration {
    usual * number_from_env("ATOMSEQ_STRESS_FACTOR", 1)
}

/// Runs the per-CPU targets, each for so long at least; prints what was done.
///
/// # Panics
///
/// If an invariant is violated.
pub fn conserve(test: &str, each: Duration, is_chosen: impl Fn(&str) -> bool) {
    let options = Options::new(fastrand::u64(..));
    for target in targets::named("percpu").filter(|target| is_chosen(target.name)) {
        let goal = Goal {
            time: each,
            operations: 1_000,
            signals: 10,
            moves: 10,
            ..Goal::default()
        };
        let end = watch::run(target, &options, goal, |_| ()).expect("threads for the test");
        let figures = end.expect_held();
        println!("stress: {test}: {}: {figures}", target.name);
        assert!(target.name != "fork" || figures.counted > 0, "no fork");
    }
}

/// A worker's thread, for threads that disturb it.
#[derive(Debug, Default)]
pub struct Victim(AtomicI32);

impl Victim {
    /// Makes the calling thread the one that is disturbed.
    pub fn volunteer(&self) {
        self.0.store(system::own_number(), Ordering::Release);
    }

    /// Ends the disturbances.
    pub fn resign(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Sends the thread a signal.
    pub fn interrupt(&self) {
        let thread = self.0.load(Ordering::Acquire);
        if thread != 0 {
            system::interrupt(thread, system::Signal::Sent);
        }
    }

    /// Moves the thread to one of the CPUs; false if it has resigned, or the system refuses.
    pub fn move_to(&self, cpus: &[usize]) -> bool {
        let thread = self.0.load(Ordering::Acquire);
        thread != 0 && system::move_thread(thread, cpus)
    }
}
