//! Signals that a thread keeps, because queueing them to the kernel again would lose a signal.
//!
//! Generating `SIGCONT` discards the pending stop signals of the whole process, and generating a
//! stop signal discards its pending `SIGCONT` (POSIX, 2.4.1). A deferred signal was generated long
//! ago; queued again it would discard what came later.
//!
//! The kernel takes some signals without saying that it has dropped the record, or the whole
//! signal. A standard signal is dropped if one of its number waits in the thread's queue: a timer
//! is armed again when its signal is first delivered, so the next one may be there before the
//! deferred one, whose overruns are lost. A real-time signal of `kill` is only noted if the queue
//! is full, and that note is cleared with the last queued signal of its number. Of other real-time
//! signals, the kernel says that there is no room. And a sandbox may refuse to queue or to send at
//! all.
//!
//! ```text
//!            defer                                  end of the outermost mask
//! thread ─────┬──────────────────────────────────────┬── takes a kept signal ─> its handler ─> next … ── unblocks
//! kept        its number; its record in `saved`      unless a later signal has discarded it
//! ```
//!
//! The thread calls the handler itself, with a context made up of the place where the mask ends.
//! What the handler changes in that context has no effect, but for the mask.

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

use super::super::statistics::COUNTS;
use super::actions::{self, By};
use super::run::{self, Delivery};
use super::words::Words;
use super::{Interrupted, mask, pass_on};
use crate::platform::{Context, bit, change_mask, is_any_pending, pending};
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

/// Does a thread keep `signal` rather than queue it again, when a mask defers it?
pub fn is_kept(signal: c_int, info: &libc::siginfo_t) -> bool {
    match discarded_by(signal) {
        0 => may_merge(signal, info) && has_place(signal),
        _ => is_run_by_thread(signal),
    }
}

/// Would the kernel, if it is given this signal again, count it and another one of its number as
/// one, where it has counted two?
pub fn may_merge(signal: c_int, info: &libc::siginfo_t) -> bool {
    match is_real_time(signal) {
        true => info.si_code == libc::SI_USER,
        false => info.si_code == libc::SI_TIMER,
    }
}

/// Can the thread keep a signal of this number, in addition to those that it keeps?
pub fn has_place(signal: c_int) -> bool {
    is_run_by_thread(signal) && Words::of_this_thread().kept() & bit(signal) == 0
}

/// May the thread call this signal's handler itself? Not if that needs the alternate stack, on
/// which only the kernel puts a handler.
fn is_run_by_thread(signal: c_int) -> bool {
    actions::action(signal).is_none_or(|action| action.options.stack.is_none())
}

/// The signals of which a pending one means that one generated later has discarded `signal`, or
/// that it is pending anyway.
pub fn superseding(signal: c_int) -> u64 {
    match discarded_by(signal) {
        0 => 0,
        later => later | bit(signal),
    }
}

/// Keeps a signal until the outermost mask ends. Managed signals must be blocked.
pub fn keep(signal: c_int, info: &libc::siginfo_t) {
    let words = Words::of_this_thread();
    // What was generated later discards what is kept already.
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
        // Standard signals are pending once only; of the others each counts.
        COUNTS.lost_signals.add();
    }
    words.keep(bit(signal));
}

/// Does the kernel keep a queue of signals of this number? Of others, one is pending at most.
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
        // The record first: a handler that no mask holds back may see to the signal before the bit
        // is taken, and drop the record after that.
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

/// Queues what is kept to the kernel, before calls that wait for pending signals. Managed signals
/// must be blocked. What was generated later, but not pending yet when this looks, may be
/// discarded. What would be lost in the queue stays kept, if one of its number is pending: that one
/// ends the wait, unless it is one of the process that another thread takes (a stated limit).
pub fn queue_kept() {
    requeue(Words::of_this_thread().kept());
}

/// Queues what is kept to the kernel, before a jump out of a handler to code outside of masks: it
/// comes when the jump has restored that code's mask.
pub fn queue_before_jump() {
    let words = Words::of_this_thread();
    if words.kept() != 0 && words.depth() == 0 {
        let before = change_mask(libc::SIG_BLOCK, actions::managed() | words.kept());
        // The handler of SIGSYS jumps: a sandbox may answer the calls here by that, and kill.
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
        // The kernel would drop it, whatever its record says: that may be a bare one.
        let is_dropped = !is_real_time(signal) && discarded_by(signal) == 0;
        if !mask::waits_in_kernel(signal, &info, is_dropped || may_merge(signal, &info)) {
            put(signal, &info);
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

/// As [`end_in`], after a handler whose thread goes on as `context` says. May leave signals
/// blocked. `run_waiting` runs the handlers of what waits for that delivery, and returns whether
/// there were any.
///
/// On the alternate stack, where only the handlers belong that were installed for it, it runs none:
/// the kernel is given what it can take.
///
/// # Safety
/// `context` is that of a handler on this thread, or made for one, and lies in no other delivery.
pub unsafe fn run_after_handler(context: Context, run_waiting: impl Fn() -> bool) {
    let words = Words::of_this_thread();
    if words.kept() == 0 || words.depth() > 0 || words.rollforward.is_under_way() {
        return;
    }
    loop {
        // A handler of others' must not jump out of the look-up.
        change_mask(libc::SIG_BLOCK, actions::undecided_mask());
        let is_on_other_stack = context.is_on_other_stack();
        let blocked = context.mask();
        queue_again(if is_on_other_stack { !0 } else { blocked });
        if is_on_other_stack || table::find(context.program_counter()).is_some() {
            return;
        }
        // Handlers run now, and may jump away: nothing may wait for this delivery.
        words.delivery.store(0, Relaxed);
        if !run_waiting() {
            break;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { run_kept(context) };
}

/// Queues those of `signals` that are kept, and of whose number none is pending any more. Where the
/// thread goes on with them blocked, it may wait for the next one, as in `sigsuspend`, which puts
/// the mask back.
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
/// As [`run_after_handler`]; the thread is in no mask, and in no sequence that no handler
/// interrupts.
unsafe fn run_kept(context: Context) {
    let words = Words::of_this_thread();
    // A handler that is in the middle of a sequence has ended a mask, or a gate.
    let in_handler_inside = words.inside.holds(context);
    let interrupted = match in_handler_inside {
        true => Interrupted::Inside,
        false => Interrupted::Plain,
    };
    loop {
        // The last handler may have let managed signals in, whose deliveries may keep signals too.
        // And a handler of others' must not jump away with what was taken.
        change_mask(libc::SIG_BLOCK, actions::undecided_mask());
        let taken = take(context.mask());
        // A handler that leaves by the C library's siglongjmp leaves the rest to the next delivery,
        // or the end of the next mask.
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
