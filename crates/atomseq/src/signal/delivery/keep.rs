//! Signals that a thread keeps, because queueing them to the kernel again would lose a signal.
//!
//! Generating `SIGCONT` discards the pending stop signals of the whole process, and generating a stop signal discards its
//! pending `SIGCONT` (POSIX, 2.4.1). A deferred signal was generated long ago; queued again it would discard what came
//! later. And a sandbox may refuse to queue or to send at all.
//!
//! ```text
//!            defer                                  end of the outermost mask
//! thread ─────┬──────────────────────────────────────┬── takes a kept signal ─> its handler ─> next … ── unblocks
//! kept        its number; its record in `saved`      unless a later signal has discarded it
//! ```
//!
//! The thread calls the handler itself, with a context made up of the place where the mask ends. What the handler
//! changes in that context has no effect, but for the mask.

use core::ffi::c_int;

use super::super::statistics::COUNTS;
use super::actions::{self, By};
use super::run::{self, Delivery};
use super::words::Words;
use super::{Interrupted, mask, pass_on};
use crate::platform::{Context, bit, change_mask, pending};
use crate::sequence::table;

/// What `SIGCONT` discards.
const STOPS: u64 = bit(libc::SIGTSTP) | bit(libc::SIGTTIN) | bit(libc::SIGTTOU);

/// The pending signals that generating `signal` discards.
fn discarded_by(signal: c_int) -> u64 {
    match signal {
        libc::SIGCONT => STOPS,
        _ if STOPS & bit(signal) != 0 => bit(libc::SIGCONT),
        _ => 0,
    }
}

/// Does a thread keep `signal` rather than queue it again? Not if its handler needs the alternate stack, on which only the
/// kernel puts a handler.
pub fn is_kept(signal: c_int) -> bool {
    discarded_by(signal) != 0
        && actions::action(signal).is_none_or(|action| action.options.stack.is_none())
}

/// Has a signal that was generated later discarded `signal`, or is it pending anyway?
pub fn is_superseded(signal: c_int) -> bool {
    let later = discarded_by(signal);
    later != 0 && pending() & (later | bit(signal)) != 0
}

/// Keeps a signal until the outermost mask ends. Managed signals must be blocked.
pub fn keep(signal: c_int, info: &libc::siginfo_t) {
    let words = Words::of_this_thread();
    // What was generated later discards what is kept already.
    let kept = words.kept();
    let discarded = kept & discarded_by(signal);
    words.saved.forget(discarded);
    words.keep_no_longer(discarded);
    let is_first = kept & bit(signal) == 0;
    if is_first {
        if !words.save(signal, info) {
            COUNTS.lost_information.add();
        }
    } else if signal >= FIRST_REAL_TIME {
        // Standard signals are pending once only; of the others each counts.
        COUNTS.lost_signals.add();
    }
    words.keep(bit(signal));
    COUNTS.kept.add();
}

/// The kernel's first real-time signal.
const FIRST_REAL_TIME: c_int = 32;

/// Takes a kept signal that `mask` does not block, unless it was discarded meanwhile. Managed signals must be blocked.
fn take(mask: u64) -> Option<(c_int, libc::siginfo_t)> {
    let words = Words::of_this_thread();
    loop {
        let ready = words.kept() & !mask;
        if ready == 0 {
            return None;
        }
        let signal = ready.trailing_zeros() as c_int + 1;
        words.keep_no_longer(bit(signal));
        let info = words.saved.take_kept(signal);
        if !is_superseded(signal) {
            return Some((signal, info));
        }
    }
}

/// Queues what is kept to the kernel, before calls that wait for pending signals. Managed signals must be blocked. What was
/// generated later, but not pending yet when this looks, may be discarded.
pub fn queue_kept() {
    let words = Words::of_this_thread();
    let mut rest = words.kept();
    words.keep_no_longer(rest);
    while rest != 0 {
        let signal = rest.trailing_zeros() as c_int + 1;
        rest &= !bit(signal);
        let info = words.saved.take_kept(signal);
        if !mask::queue_again(signal, &info) {
            keep(signal, &info);
        }
    }
}

/// Ends a mask inside which signals were kept: calls their handlers, and goes on with `mask`.
pub fn end_in(mask: u64) {
    // SAFETY: plain old data.
    let mut memory: libc::ucontext_t = unsafe { core::mem::zeroed() };
    if Words::of_this_thread().kept() == 0 {
        change_mask(libc::SIG_SETMASK, mask);
        return;
    }
    let context = Context::of_caller(&mut memory, mask);
    // SAFETY: the context lives until this returns, and the thread is in no sequence.
    unsafe { run_kept(context) };
    change_mask(libc::SIG_SETMASK, context.mask());
}

/// As [`end_in`], after a handler whose thread goes on as `context` says. May leave signals blocked.
///
/// # Safety
/// `context` is that of a handler on this thread, or made for one.
pub unsafe fn run_after_handler(context: Context) {
    let words = Words::of_this_thread();
    if words.kept() == 0 || words.depth() > 0 || words.rollforward.is_under_way() {
        return;
    }
    // A handler of others' must not jump out of the look-up.
    change_mask(libc::SIG_BLOCK, actions::undecided_mask());
    if table::find(context.program_counter()).is_none() {
        // SAFETY: the caller's promise.
        unsafe { run_kept(context) };
    }
}

/// Calls the handlers of kept signals that the mask in `context` does not block.
///
/// # Safety
/// As [`run_after_handler`]; the thread is in no sequence, mask or rollforward.
unsafe fn run_kept(context: Context) {
    let words = Words::of_this_thread();
    loop {
        // The last handler may have let managed signals in, whose deliveries may keep signals too. And a handler of others' must not
        // jump away with what was taken.
        change_mask(libc::SIG_BLOCK, actions::undecided_mask());
        let taken = take(context.mask());
        // A handler that leaves by siglongjmp leaves the rest to the end of the next mask.
        words.note_waiting();
        let Some((signal, info)) = taken else {
            return;
        };
        let delivery = Delivery {
            signal,
            info: &info,
            context,
            original_pc: context.program_counter(),
            interrupted: Interrupted::Plain,
            in_handler_inside: false,
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
                pass_on(entry, signal, &info, context, context.mask());
            },
        }
    }
}
