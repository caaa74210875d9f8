//! `signal-mask`: an enter and a leave of the mask, with nothing in between.

use std::sync::atomic::{AtomicU64, Ordering};

use super::signal_sequence::{KernelMask, Mask, Shield};
use super::{Experiment, Method, Threads, cases};
use crate::bench::beside::Beside;
use crate::bench::engine::Subject;
use crate::bench::fault::Fault;
use crate::bench::signals;
use crate::error::Refused;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "signal-mask",
    about: "masking this thread's signals and unmasking them",
    cases: cases! {
        "mask", "signal::mask() and the drop of its guard", |_| Box::new(Pairs::<Mask>::default());
        "sigprocmask", "two calls of sigprocmask: block, restore",
            |_| Box::new(Pairs::<KernelMask>::default());
    },
    peers: &["sigprocmask"],
    method: Method::Timed,
    threads: Threads::Alone,
    beside: Some(&Beside {
        paper: "M94",
        table: Some("1"),
        programs: &[("", "NULL")],
        counterparts: &[("sigprocmask", "sigprocmask")],
        // M94 made a user-level sigprocmask of its Dyn/Jump (6) and gives no figures of it but
        // those of Dyn/Jump.
        nearest: &[("mask", "Dyn/Jump")],
        arguments: &[("Dyn/Jump", "sigprocmask")],
        ..Beside::NOTHING
    }),
};

#[derive(Default)]
struct Pairs<S> {
    shield: S,
    done: AtomicU64,
}

impl<S: Shield> Subject for Pairs<S> {
    fn prepare(&self, _thread: usize) -> Result<(), Refused> {
        signals::prove_that_it_waits_for(|| self.shield.mask())
    }

    fn run(&self, _thread: usize, operations: u64) {
        for _ in 0..operations {
            drop(self.shield.mask());
        }
        // Relaxed: a count, read after the threads have met at the crew's mutex.
        self.done.fetch_add(operations, Ordering::Relaxed);
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        let done = self.done.load(Ordering::Relaxed);
        (done == operations).then_some(()).ok_or_else(|| {
            let sentence = format!("{done} pairs of {operations} were left");
            Fault::count(operations, [done], sentence)
        })
    }
}
