//! Signals that deferral has not blocked arrive at each instruction of what begins and ends masks;
//! their handlers have masks.
//!
//! ```text
//! thread   mask ─ deferred signal ─ end: one less … what is blocked? … unblocked ─ its handler
//!                                   └──────── each of these instructions ────────┘
//!                                          handler with masks: nothing comes in between
//! ```
//!
//! They are those that are never blocked, and one that is managed only since the others were
//! deferred. Such a handler must neither see the half-finished operation nor end it: the deferred
//! signal waits for the end that the thread itself makes.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use atomseq::signal::{self, Event};
use verify_signals::signals::{change_mask, install, is_blocked, kernel_mask, raise};

use super::deliver::{FIRST, SECOND, UNMASKABLE};
use super::stepper;

/// A signal that threads keep instead of queueing it again.
const KEPT: c_int = libc::SIGTSTP;

/// The handlers that run now of those that managed signals must not interrupt.
static UNDISTURBED: AtomicUsize = AtomicUsize::new(0);
/// How often which handlers have run.
static INTERRUPTED: AtomicUsize = AtomicUsize::new(0);
static DEFERRED: AtomicUsize = AtomicUsize::new(0);
/// Something else that is wrong.
static IS_DISTURBED: AtomicBool = AtomicBool::new(false);
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// Has masks of its own.
fn undisturbed(event: &mut Event<'_>) {
    UNDISTURBED.fetch_add(1, SeqCst);
    drop(signal::mask());
    let both = (signal::mask(), signal::mask());
    signal::with_kernel_mask(|| drop(signal::mask()));
    drop(both);
    if !is_blocked(FIRST) || signal::is_masked() && event.signal() == KEPT {
        IS_OPEN.store(true, SeqCst);
    }
    UNDISTURBED.fetch_sub(1, SeqCst);
    let count = match event.signal() {
        KEPT => &DEFERRED,
        _ => &INTERRUPTED,
    };
    count.fetch_add(1, SeqCst);
}

fn deferred(_: &mut Event<'_>) {
    DEFERRED.fetch_add(1, SeqCst);
    if UNDISTURBED.load(SeqCst) != 0 {
        IS_DISTURBED.store(true, SeqCst);
    }
}

/// Installs all handlers.
pub fn install_handlers() {
    install(FIRST, deferred);
    install(KEPT, undisturbed);
    for signal in UNMASKABLE {
        install(signal, undisturbed);
    }
    stepper::install();
}

/// An operation, at whose instructions signals arrive.
#[derive(Clone, Copy)]
pub struct Operation {
    /// For messages.
    pub name: &'static str,
    /// What is deferred in a mask before it.
    pub before: &'static [c_int],
    /// What arrives together with the signal that interrupts.
    pub along: &'static [c_int],
    /// Begins inside the mask that is passed to it, and ends it.
    pub call: fn(signal::Masked),
}

/// Those that there are.
pub const OPERATIONS: [Operation; 8] = [
    Operation {
        name: "the end of a mask",
        before: &[FIRST],
        along: &[],
        call: drop_it,
    },
    Operation {
        name: "the end of a mask while a signal arrives",
        before: &[],
        along: &[FIRST],
        call: drop_it,
    },
    Operation {
        name: "the end of a mask in which a signal is kept",
        before: &[KEPT],
        along: &[],
        call: drop_it,
    },
    Operation {
        name: "the end of a mask in which a signal is kept, and another one queued",
        before: &[FIRST, KEPT],
        along: &[],
        call: drop_it,
    },
    Operation {
        name: "masks inside masks",
        before: &[FIRST],
        along: &[],
        call: nest,
    },
    Operation {
        name: "a kernel mask inside a mask",
        before: &[FIRST],
        along: &[],
        call: with_kernel_mask,
    },
    Operation {
        name: "a kernel mask in which the mask around it ends",
        before: &[FIRST],
        along: &[],
        call: end_with_kernel_mask,
    },
    Operation {
        name: "a mask that only a kernel mask interrupts",
        before: &[],
        along: &[FIRST],
        call: with_kernel_mask,
    },
];

#[inline(never)]
fn drop_it(masked: signal::Masked) {
    drop(masked);
}

#[inline(never)]
fn nest(masked: signal::Masked) {
    let inner = signal::mask();
    drop(masked);
    let innermost = signal::mask();
    drop(inner);
    drop(innermost);
}

#[inline(never)]
fn with_kernel_mask(masked: signal::Masked) {
    signal::with_kernel_mask(note_what_is_open);
    drop(masked);
}

#[inline(never)]
fn end_with_kernel_mask(masked: signal::Masked) {
    signal::with_kernel_mask(|| {
        drop(masked);
        note_what_is_open();
    });
}

fn note_what_is_open() {
    if kernel_mask() >> (FIRST - 1) & 1 == 0 || signal::is_masked() {
        IS_OPEN.store(true, SeqCst);
    }
}

/// What was done, and what went wrong.
#[derive(Default)]
pub struct Ends {
    /// How often signals arrived.
    pub runs: usize,
    /// What went wrong.
    pub violations: Vec<String>,
}

impl Ends {
    /// Interrupts an operation at each of its instructions, by one of the signals in turn; `every`
    /// of them.
    pub fn check(&mut self, operation: &Operation, every: usize) {
        let mut step = 1;
        while self.run(operation, step) {
            step += every;
        }
    }

    /// Returns `false` if the operation has no so many instructions.
    fn run(&mut self, operation: &Operation, step: usize) -> bool {
        for count in [&INTERRUPTED, &DEFERRED] {
            count.store(0, SeqCst);
        }
        for is_wrong in [&IS_DISTURBED, &IS_OPEN] {
            is_wrong.store(false, SeqCst);
        }
        let before = kernel_mask();
        let signal = match step % (UNMASKABLE.len() + 1) {
            0 => SECOND,
            number => UNMASKABLE[number - 1],
        };
        let masked = signal::mask();
        operation.before.iter().for_each(|signal| raise(*signal));
        if signal == SECOND {
            install(SECOND, undisturbed);
        }
        let send = [operation.along, &[signal]].concat();
        let is_met = stepper::at_step(step, &send, || (operation.call)(masked));
        if signal == SECOND {
            signal::uninstall(SECOND).expect("it was installed");
        }
        if !is_met {
            return false;
        }
        let expected = operation.before.len() + operation.along.len();
        let is_right_after = kernel_mask() == before && !signal::is_masked();
        // A mask in which nothing happens unblocks nothing.
        change_mask(libc::SIG_BLOCK, &[FIRST]);
        drop(signal::mask());
        let is_still_blocked = is_blocked(FIRST);
        change_mask(libc::SIG_UNBLOCK, &[FIRST]);
        let wrong = [
            (
                INTERRUPTED.load(SeqCst) == 1,
                "its handler has not run once",
            ),
            (
                DEFERRED.load(SeqCst) == expected,
                "what was deferred has not been handled once each",
            ),
            (
                !IS_DISTURBED.load(SeqCst),
                "a managed signal was handled in the middle of a handler",
            ),
            (
                !IS_OPEN.load(SeqCst),
                "managed signals were not blocked where they must be",
            ),
            (
                is_right_after,
                "the thread's mask is another one afterwards",
            ),
            (
                is_still_blocked,
                "a later mask unblocked what the program has blocked",
            ),
        ];
        self.runs += 1;
        for (_, what) in wrong.iter().filter(|(is_right, _)| !is_right) {
            self.violations.push(format!(
                "{}, at instruction {step}, signal {signal}: {what}",
                operation.name
            ));
        }
        // For the next run, if this one has left signals blocked.
        drop(signal::mask());
        change_mask(libc::SIG_SETMASK, &[]);
        true
    }
}
