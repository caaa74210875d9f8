//! Lets signals that deferral has not blocked arrive at each instruction of the code that begins
//! and ends masks; their handlers use masks.
//!
//! ```text
//! thread   mask ─ deferred signal ─ end: one less … what is blocked? … unblocked ─ its handler
//!                                   └──────── each of these instructions ────────┘
//!                                          handler with masks: nothing comes in between
//! ```
//!
//! These signals are those that are never blocked, and one that became managed only after the
//! others were deferred. Their handler must neither observe the unfinished operation nor complete
//! it: the deferred signal waits for the end that the thread itself makes.
//!
//! In another pass a handler of others' forks there, and the child continues the operation, without
//! the signals that are pending for its parent.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst};

use atomseq::signal::{self, Event};
use verify_support::jump;
use verify_support::processes::code_of;
use verify_support::signals::{
    change_mask, install, install_plainly, is_blocked, kernel_mask, queue_of_timer, raise,
};

use super::deliver::{FIRST, SECOND, UNMASKABLE};
use super::stepper;

/// A signal that threads keep instead of queueing it again.
const KEPT: c_int = libc::SIGTSTP;

/// Such a signal, sent by a timer.
const TIMER: c_int = libc::SIGPROF;

/// A signal whose handler was not installed through the library, and forks.
const FORKING: c_int = libc::SIGWINCH;

/// The number of running handlers that managed signals must not interrupt.
static UNDISTURBED: AtomicUsize = AtomicUsize::new(0);
/// The numbers of handlers that have run.
static INTERRUPTED: AtomicUsize = AtomicUsize::new(0);
static DEFERRED: AtomicUsize = AtomicUsize::new(0);
/// Whether the handlers use no mask.
static IS_PLAIN: AtomicBool = AtomicBool::new(false);
/// Other violations.
static IS_DISTURBED: AtomicBool = AtomicBool::new(false);
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// The signal that `leave_over` leaves, and whether the next handler jumps.
static LEFT_OVER: AtomicI32 = AtomicI32::new(0);
static IS_JUMPING: AtomicBool = AtomicBool::new(false);

/// A handler that uses masks of its own, or none.
fn undisturbed(event: &mut Event<'_>) {
    if IS_JUMPING.swap(false, SeqCst) {
        // SAFETY: `leave_over` runs, and its mask has ended.
        unsafe { jump::back() };
    }
    UNDISTURBED.fetch_add(1, SeqCst);
    if !IS_PLAIN.load(SeqCst) {
        drop(signal::mask());
        let both = (signal::mask(), signal::mask());
        signal::with_kernel_mask(|| drop(signal::mask()));
        drop(both);
    }
    if !is_blocked(FIRST) || signal::is_masked() && [KEPT, TIMER].contains(&event.signal()) {
        IS_OPEN.store(true, SeqCst);
    }
    UNDISTURBED.fetch_sub(1, SeqCst);
    let count = match event.signal() {
        KEPT | TIMER => &DEFERRED,
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

/// The result of the last fork.
static CHILD: AtomicI32 = AtomicI32::new(-1);

extern "C" fn fork(_: c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the child runs on as this process would, which has no other thread.
    CHILD.store(unsafe { libc::fork() }, SeqCst);
}

/// Installs all handlers.
pub fn install_handlers() {
    install_plainly(FORKING, fork, libc::SA_RESTART, &[]);
    install(FIRST, deferred);
    install(KEPT, undisturbed);
    install(TIMER, undisturbed);
    for signal in UNMASKABLE {
        install(signal, undisturbed);
    }
    stepper::install();
}

/// Raises a signal; [`TIMER`] as if sent by a timer.
fn raise_before(signal: c_int) {
    match signal {
        TIMER => queue_of_timer(TIMER, 0, 0),
        _ => raise(signal),
    }
}

/// Makes the thread keep `signal`: a handler leaves the end of the mask by a jump.
fn leave_over(signal: c_int) {
    extern "C" fn keep_two() {
        let masked = signal::mask();
        raise(KEPT);
        change_mask(libc::SIG_UNBLOCK, &[LEFT_OVER.load(SeqCst)]);
        raise_before(LEFT_OVER.load(SeqCst));
        IS_JUMPING.store(true, SeqCst);
        drop(masked);
    }
    LEFT_OVER.store(signal, SeqCst);
    jump::with_target(keep_two);
    change_mask(libc::SIG_BLOCK, &[FIRST]);
}

/// An operation at whose instructions signals arrive.
#[derive(Clone, Copy)]
pub struct Operation {
    /// For messages.
    pub name: &'static str,
    /// The signals deferred in a mask before it.
    pub before: &'static [c_int],
    /// The signals kept since an earlier mask; the program then blocks [`FIRST`].
    pub left_over: &'static [c_int],
    /// The signals that arrive together with the one that interrupts.
    pub along: &'static [c_int],
    /// Begins inside the mask that is passed to it, and ends that mask.
    pub call: fn(signal::Masked),
}

/// All operations.
pub const OPERATIONS: [Operation; 11] = [
    Operation {
        name: "the end of a mask",
        before: &[FIRST],
        left_over: &[],
        along: &[],
        call: drop_it,
    },
    Operation {
        name: "the end of a mask while a signal arrives",
        before: &[],
        left_over: &[],
        along: &[FIRST],
        call: drop_it,
    },
    Operation {
        name: "the end of a mask in which a signal is kept",
        before: &[KEPT],
        left_over: &[],
        along: &[],
        call: drop_it,
    },
    Operation {
        name: "the end of a mask in which a signal is kept, and another one queued",
        before: &[FIRST, KEPT],
        left_over: &[],
        along: &[],
        call: drop_it,
    },
    Operation {
        name: "the end of a mask in which a timer's signal is kept",
        before: &[TIMER],
        left_over: &[],
        along: &[],
        call: drop_it,
    },
    Operation {
        name: "a kernel mask that finds a timer's signal kept",
        before: &[TIMER],
        left_over: &[],
        along: &[],
        call: with_kernel_mask,
    },
    Operation {
        name: "masks inside masks",
        before: &[FIRST],
        left_over: &[],
        along: &[],
        call: nest,
    },
    Operation {
        name: "a kernel mask inside a mask",
        before: &[FIRST],
        left_over: &[],
        along: &[],
        call: with_kernel_mask,
    },
    Operation {
        name: "a kernel mask in which the mask around it ends",
        before: &[FIRST],
        left_over: &[],
        along: &[],
        call: end_with_kernel_mask,
    },
    Operation {
        name: "a mask that only a kernel mask interrupts",
        before: &[],
        left_over: &[],
        along: &[FIRST],
        call: with_kernel_mask,
    },
    Operation {
        name: "the end of a mask that finds a signal kept before it",
        before: &[],
        left_over: &[TIMER],
        along: &[],
        call: drop_it,
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

/// Returns whether a mask in which nothing happens leaves the program's blocked signals blocked.
fn an_empty_mask_unblocks_nothing() -> bool {
    change_mask(libc::SIG_BLOCK, &[FIRST]);
    drop(signal::mask());
    let is_still_blocked = is_blocked(FIRST);
    change_mask(libc::SIG_UNBLOCK, &[FIRST]);
    is_still_blocked
}

/// The work done, and the violations found.
#[derive(Default)]
pub struct Ends {
    /// The number of interrupted runs.
    pub runs: usize,
    /// The violations found.
    pub violations: Vec<String>,
}

impl Ends {
    /// Interrupts an operation at each of its instructions, or at one in `every`: by one of the
    /// signals in turn, and by one whose handler uses no masks.
    pub fn check(&mut self, operation: &Operation, every: usize) {
        let mut step = 1;
        let in_turn = |step| match step % (UNMASKABLE.len() + 1) {
            0 => SECOND,
            number => UNMASKABLE[number - 1],
        };
        while self.run(operation, step, in_turn(step)) {
            IS_PLAIN.store(true, SeqCst);
            self.run(operation, step, UNMASKABLE[0]);
            IS_PLAIN.store(false, SeqCst);
            step += every;
        }
    }

    /// Forks at each instruction of an operation, or at one in `every`.
    pub fn check_forks(&mut self, operation: &Operation, every: usize) {
        let mut step = 1;
        while self.run_fork(operation, step) {
            step += every;
        }
    }

    /// Returns `false` if the operation has fewer instructions.
    fn run_fork(&mut self, operation: &Operation, step: usize) -> bool {
        operation
            .left_over
            .iter()
            .for_each(|signal| leave_over(*signal));
        let before = kernel_mask();
        let masked = signal::mask();
        operation
            .before
            .iter()
            .for_each(|signal| raise_before(*signal));
        CHILD.store(-1, SeqCst);
        let send = [operation.along, &[FORKING]].concat();
        if !stepper::at_step(step, &send, || (operation.call)(masked)) {
            return false;
        }
        let is_right_after = kernel_mask() == before && !signal::is_masked();
        let is_still_blocked = an_empty_mask_unblocks_nothing();
        match CHILD.load(SeqCst) {
            // SAFETY: ends the child.
            0 => unsafe { libc::_exit(i32::from(!is_right_after || !is_still_blocked)) },
            child => {
                let is_right = code_of(child) == 0 && is_right_after && is_still_blocked;
                self.runs += 1;
                if !is_right {
                    self.violations.push(format!(
                        "{}, at instruction {step}: a fork there leaves something to unblock",
                        operation.name
                    ));
                }
            }
        }
        true
    }

    /// Returns `false` if the operation has fewer instructions.
    fn run(&mut self, operation: &Operation, step: usize, signal: c_int) -> bool {
        for count in [&INTERRUPTED, &DEFERRED] {
            count.store(0, SeqCst);
        }
        for is_wrong in [&IS_DISTURBED, &IS_OPEN] {
            is_wrong.store(false, SeqCst);
        }
        operation
            .left_over
            .iter()
            .for_each(|signal| leave_over(*signal));
        let before = kernel_mask();
        let masked = signal::mask();
        operation
            .before
            .iter()
            .for_each(|signal| raise_before(*signal));
        if signal == SECOND {
            install(SECOND, undisturbed);
        }
        if !operation.left_over.is_empty() {
            // A disposition that was adopted must not be used here: its deliveries would forget
            // what an earlier end of a mask has unblocked.
            stepper::install();
        }
        let send = [operation.along, &[signal]].concat();
        let is_met = stepper::at_step(step, &send, || (operation.call)(masked));
        if signal == SECOND {
            signal::uninstall(SECOND).expect("it was installed");
        }
        if !is_met {
            return false;
        }
        let expected = operation.before.len() + operation.along.len() + operation.left_over.len();
        let is_right_after = kernel_mask() == before && !signal::is_masked();
        let is_still_blocked = an_empty_mask_unblocks_nothing();
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
        // Prepares the next run, in case this one has left signals blocked.
        drop(signal::mask());
        change_mask(libc::SIG_SETMASK, &[]);
        true
    }
}
