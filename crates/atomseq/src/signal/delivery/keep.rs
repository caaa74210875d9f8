//! Signals that a thread keeps in its own words, because queueing them to the kernel again would
//! lose a signal.
//!
//! Generating `SIGCONT` discards the pending stop signals of the whole process, and generating a
//! stop signal discards its pending `SIGCONT` (POSIX, 2.4.1). A deferred signal was generated
//! earlier; queued again it would discard signals that were generated later.
//!
//! The kernel accepts some signals and drops the record, or the whole signal, without an error:
//!
//! * A standard signal is dropped if one of its number is pending for the thread. A timer is armed
//!   again when its signal is first delivered, so its next signal may be pending before the
//!   deferred one is queued, whose overruns are then lost.
//! * If the queue is full, a real-time signal of `kill` only sets a bit, which is cleared with the
//!   last queued signal of its number.
//!
//! For other real-time signals the kernel returns an error when the queue is full. And a sandbox
//! may refuse to queue or to send signals at all.
//!
//! ```text
//!            defer                                  end of the outermost mask
//! thread ─────┬──────────────────────────────────────┬── takes a kept signal ─> its handler ─> next … ── unblocks
//! kept        its number; its record in `saved`      unless a later signal has discarded it
//! ```
//!
//! The thread calls the handler itself, with a synthetic context of the place where the mask ends.
//! Of the handler's changes to that context, only those to the mask take effect.

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

use super::super::statistics::COUNTS;
use super::actions::{self, By};
use super::run::{self, Delivery};
use super::words::Words;
use super::{Interrupted, mask, pass_on};
use crate::platform::{Context, bit, change_mask, is_any_pending, pending};
use crate::sequence::table;

/// The pending signals that `SIGCONT` discards.
const STOPS: u64 = bit(libc::SIGTSTP) | bit(libc::SIGTTIN) | bit(libc::SIGTTOU);

/// Returns the pending signals that generating `signal` discards.
fn discarded_by(signal: c_int) -> u64 {
    match signal {
        libc::SIGCONT => STOPS,
        _ if STOPS & bit(signal) != 0 => bit(libc::SIGCONT),
        _ => 0,
    }
}

/// Returns whether a thread keeps `signal` when a mask defers it, instead of queueing it again.
pub fn is_kept(signal: c_int, info: &libc::siginfo_t) -> bool {
    match discarded_by(signal) {
        0 => may_merge(signal, info) && has_place(signal),
        _ => is_run_by_thread(signal),
    }
}

/// Returns whether the kernel, if this signal is queued again, may merge it with another one of its
/// number that it had counted separately before.
pub fn may_merge(signal: c_int, info: &libc::siginfo_t) -> bool {
    match is_real_time(signal) {
        true => info.si_code == libc::SI_USER,
        false => info.si_code == libc::SI_TIMER,
    }
}

/// Returns whether the thread can keep a signal of this number, in addition to those that it keeps.
pub fn has_place(signal: c_int) -> bool {
    is_run_by_thread(signal) && Words::of_this_thread().kept() & bit(signal) == 0
}

/// Returns whether the thread may call this signal's handler itself. It may not if the handler
/// needs the alternate stack, to which only the kernel can switch.
fn is_run_by_thread(signal: c_int) -> bool {
    actions::action(signal).is_none_or(|action| action.options.stack.is_none())
}

/// Returns the signals that supersede `signal`: if one of them is pending, a later signal has
/// discarded `signal`, or it is pending itself.
pub fn superseding(signal: c_int) -> u64 {
    match discarded_by(signal) {
        0 => 0,
        later => later | bit(signal),
    }
}

/// Keeps a signal until the outermost mask ends. Managed signals must be blocked.
pub fn keep(signal: c_int, info: &libc::siginfo_t) {
    let words = Words::of_this_thread();
    // This signal was generated later, so it discards kept ones of the opposite kind.
    let kept = words.kept();
    let discarded = kept & discarded_by(signal);
    words.saved.forget(discarded);
    words.keep_no_longer(discarded);
    put(signal, info);
    COUNTS.kept.add();
}

fn put(signal: c_int, info: &libc::siginfo_t) {
    let words = Words::of_this_thread();
    let is_first = words.kept() & bit(signal) == 0;
    if is_first {
        if !words.save(signal, info) {
            COUNTS.lost_information.add();
        }
    } else if is_real_time(signal) {
        // A standard signal is pending at most once; every real-time signal counts.
        COUNTS.lost_signals.add();
    }
    words.keep(bit(signal));
}

/// Returns whether the kernel queues signals of this number. Of other numbers, at most one is
/// pending.
pub fn is_real_time(signal: c_int) -> bool {
    const FIRST: c_int = 32;
    signal >= FIRST
}

/// Takes a kept signal that `mask` does not block, unless it was discarded meanwhile. Managed
/// signals must be blocked.
fn take(mask: u64) -> Option<(c_int, libc::siginfo_t)> {
    let words = Words::of_this_thread();
    loop {
        let ready = words.kept() & !mask;
        if ready == 0 {
            return None;
        }
        let signal = ready.trailing_zeros() as c_int + 1;
        // The record first: a handler that no mask holds back may handle the signal before the bit
        // is taken, and clear the record after that.
        let info = words.saved.kept(signal);
        if words.keep_no_longer(bit(signal)) == 0 {
            continue;
        }
        words.saved.forget(bit(signal));
        let superseding = superseding(signal);
        if superseding == 0 || !is_any_pending(superseding) {
            return Some((signal, info));
        }
    }
}

/// Queues kept signals to the kernel, before calls that wait for pending signals. Managed signals
/// must be blocked.
///
/// A signal of the opposite kind that becomes pending right after this checks may be discarded. A
/// signal that the queue would lose stays kept if one of its number is pending. That one ends the
/// wait, unless it is process-directed and another thread takes it (a documented limit).
pub fn queue_kept() {
    requeue(Words::of_this_thread().kept());
}

/// Queues kept signals to the kernel, before a jump out of a handler to code outside of masks. They
/// are delivered when the jump has restored that code's mask.
pub fn queue_before_jump() {
    let words = Words::of_this_thread();
    if words.kept() != 0 && words.depth() == 0 {
        let before = change_mask(libc::SIG_BLOCK, actions::managed() | words.kept());
        // If the handler of SIGSYS jumps, that signal is blocked. A sandbox that answers the calls
        // here by SIGSYS would then end the process.
        if before & bit(libc::SIGSYS) == 0 {
            queue_kept();
            words.note_waiting();
        }
    }
}

fn requeue(mut rest: u64) {
    let words = Words::of_this_thread();
    while rest != 0 {
        let signal = rest.trailing_zeros() as c_int + 1;
        rest &= !bit(signal);
        // As in `take`.
        let info = words.saved.kept(signal);
        if words.keep_no_longer(bit(signal)) == 0 {
            continue;
        }
        words.saved.forget(bit(signal));
        // The kernel would drop it whatever its record says, which may be a bare one.
        let is_dropped = !is_real_time(signal) && discarded_by(signal) == 0;
        if !mask::waits_in_kernel(signal, &info, is_dropped || may_merge(signal, &info)) {
            put(signal, &info);
        }
    }
}

/// Ends a mask inside which signals were kept: calls their handlers, and then sets `mask`.
pub fn end_in(mask: u64) {
    // SAFETY: plain old data.
    let mut memory: libc::ucontext_t = unsafe { core::mem::zeroed() };
    if Words::of_this_thread().kept() == 0 {
        change_mask(libc::SIG_SETMASK, mask);
        return;
    }
    let context = Context::of_caller(&mut memory, mask);
    // SAFETY: the context lives until this returns, and the thread is not inside a sequence.
    unsafe { run_kept(context) };
    change_mask(libc::SIG_SETMASK, context.mask());
}

/// As [`end_in`], after a handler whose thread continues as `context` says. May leave signals
/// blocked. `run_waiting` runs the handlers of signals that wait for the delivery, and returns
/// whether there were any.
///
/// Runs no handler on the alternate stack, where only handlers that were installed for it may run.
/// There it queues kept signals to the kernel, as far as that accepts them.
///
/// # Safety
/// `context` is that of a handler on this thread, or made for one, and has not interrupted a
/// delivery.
pub unsafe fn run_after_handler(context: Context, run_waiting: impl Fn() -> bool) {
    let words = Words::of_this_thread();
    if words.kept() == 0 || words.depth() > 0 || words.rollforward.is_under_way() {
        return;
    }
    loop {
        // A handler of other code must not jump out of the look-up.
        change_mask(libc::SIG_BLOCK, actions::undecided_mask());
        let is_on_other_stack = context.is_on_other_stack();
        let blocked = context.mask();
        queue_again(if is_on_other_stack { !0 } else { blocked });
        if is_on_other_stack || table::find(context.program_counter()).is_some() {
            return;
        }
        // Handlers that run now may jump away, so no signal may wait for this delivery.
        words.delivery.store(0, Relaxed);
        if !run_waiting() {
            break;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { run_kept(context) };
}

/// Queues those of `signals` that are kept and of whose number none is pending any more. The thread
/// may continue with them blocked and wait for one, in `sigsuspend` for example.
fn queue_again(signals: u64) {
    let words = Words::of_this_thread();
    let mut rest = words.kept() & signals;
    if rest != 0 {
        rest &= !pending().unwrap_or(0);
        requeue(rest);
        words.note_waiting();
    }
}

/// Calls the handlers of kept signals that the mask in `context` does not block.
///
/// # Safety
/// As [`run_after_handler`]. The thread is not inside a mask. If it is inside a sequence, a handler
/// already runs in the middle of that.
unsafe fn run_kept(context: Context) {
    let words = Words::of_this_thread();
    // A handler in the middle of a sequence may have ended a mask or opened a gate.
    let in_handler_inside = words.inside.holds(context);
    let interrupted = match in_handler_inside {
        true => Interrupted::Inside,
        false => Interrupted::Plain,
    };
    loop {
        // The last handler may have unblocked managed signals, whose deliveries may keep signals
        // too. And a handler of other code must not jump away with a signal that was taken.
        change_mask(libc::SIG_BLOCK, actions::undecided_mask());
        let taken = take(context.mask());
        // If the handler leaves by the C library's siglongjmp, the next delivery, or the end of the
        // next mask, handles the rest.
        words.note_waiting();
        let Some((signal, info)) = taken else {
            return;
        };
        let delivery = Delivery {
            signal,
            info: &info,
            context,
            original_pc: context.program_counter(),
            interrupted,
            in_handler_inside,
            mask: context.mask(),
            blocked: None,
        };
        match actions::action(signal) {
            // SAFETY: the caller's promise.
            Some(action) if matches!(action.by, By::Handler(_)) => unsafe {
                run::run(action, &delivery)
            },
            // SAFETY: the caller's promise.
            _ => unsafe {
                let entry = actions::newest_entry(signal);
                pass_on(entry, signal, &info, context, context.mask(), false);
            },
        }
    }
}
