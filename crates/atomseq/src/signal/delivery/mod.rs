//! Delivery where sequences are protected: Linux on x86-64 and AArch64.
//!
//! ```text
//! kernel ─> entry ─┬─ fault ──────────────> faults.rs   where the sequence would have had it
//!                  ├─ in another delivery ─> nested.rs  waits until that one has decided
//!                  ├─ inside a mask ──────> mask.rs     blocked, queued again: delivered when the mask ends
//!                  ├─ in a rolling one ───> rollforward.rs   its clone runs to its end ─┐
//!                  ├─ in a restarting one ─ to its start ───────────────────────────────┤
//!                  └─ elsewhere ────────────────────────────────────────────────────────┴─> run.rs: the handler
//! ```
//!
//! All of it but `install.rs`, `cover.rs` and `fork.rs` runs in handlers: no allocation, no lock, no `errno`.

mod actions;
pub mod controls;
mod cover;
mod faults;
mod fork;
mod install;
mod mask;
mod nested;
mod rollforward;
mod run;
mod words;

pub use actions::{Previous, has_handler as is_managed};
pub use cover::{audit, repair};
pub use faults::set_rollforward_limit;
pub use install::{install, uninstall};
pub use mask::{end_mask, inheriting, is_masked, own_mask, start_mask, with_kernel_mask};
pub use rollforward::{abandon_rollforward, original_pc, siglongjmp};

use core::ffi::{c_int, c_void};

use super::Interrupted;
use super::statistics::COUNTS;
use crate::platform::{
    Context, Disposition, bit, change_mask, queue_to_this_thread, replace_disposition,
};
use crate::sequence::table;
use actions::{FAULTS, NEVER_BLOCKED};
use nested::Frame;
use run::Delivery;
use words::Words;

crate::arch::signal_entry!(entry calls dispatch);

/// Acts on a signal.
///
/// # Safety
/// `info` and `context` are those of a handler that runs on this thread, and `frame` is its delivery: what the entry, which
/// the kernel calls, or a handler that passes on what it got, has made.
unsafe extern "C" fn dispatch(
    signal: c_int,
    info: *const libc::siginfo_t,
    context: *mut c_void,
    frame: *const Frame,
) {
    // SAFETY: the caller's promise.
    let (info, own, frame) = unsafe { (&*info, Context::new(context), &*frame) };
    let words = Words::of_this_thread();
    let kept = words.saved.take(signal, info);
    let info = kept.as_ref().unwrap_or(info);
    let arrived = Arrived {
        signal,
        info,
        own,
        in_handler_inside: words.inside.holds(own),
    };
    let is_watched = !controls::is_off(controls::NESTED);
    if is_watched {
        frame.come_first();
    }
    let outer = frame.before().filter(|_| is_watched);
    let in_delivery = outer.is_some() || frame.context() != own;
    match actions::action(signal) {
        None => unhandled(signal, info),
        // SAFETY: the caller's promise.
        Some(action) if arrived.is_fault() => unsafe { faults::deliver(action, &arrived, frame) },
        // It has become managed since that delivery began.
        Some(_) if in_delivery && arrived.can_wait() => mask::hold_back(signal, info, own),
        Some(action) => match outer {
            Some(outer) => outer.keep(signal, info),
            // SAFETY: the caller's promise.
            None => unsafe { deliver(action, &arrived, frame) },
        },
    }
    frame.end();
    // SAFETY: the caller's promise.
    unsafe { deliver_waiting(&arrived, frame, own.mask(), None) };
}

/// A signal, as the kernel has passed it.
struct Arrived<'a> {
    signal: c_int,
    info: &'a libc::siginfo_t,
    /// The context of what was interrupted, were it another delivery's code.
    own: Context,
    /// Does it interrupt a handler that is in the middle of a sequence?
    in_handler_inside: bool,
}

impl Arrived<'_> {
    /// Is it raised by the instruction that it has interrupted?
    fn is_fault(&self) -> bool {
        FAULTS.contains(&self.signal) && self.info.si_code > 0
    }

    fn can_wait(&self) -> bool {
        bit(self.signal) & NEVER_BLOCKED == 0
    }
}

/// Decides how the interrupted code goes on, and runs the handler; before that, those of signals that have arrived
/// meanwhile and could not be blocked.
///
/// # Safety
/// As [`dispatch`].
unsafe fn deliver(action: &'static actions::Action, arrived: &Arrived, frame: &Frame) {
    let words = Words::of_this_thread();
    if words.rollforward.is_under_way() && !arrived.in_handler_inside {
        // A fault's handler has jumped out of it.
        abandon_rollforward();
    }
    let (context, mask) = (frame.context(), arrived.own.mask());
    let blocked = mask | action.kernel_mask(arrived.signal);
    let original_pc = context.program_counter();
    // SAFETY: the caller's promise.
    let interrupted = unsafe { decide(arrived, context) };
    frame.decided();
    // SAFETY: the caller's promise.
    unsafe { deliver_waiting(arrived, frame, blocked, interrupted) };
    let Some(interrupted) = interrupted else {
        return;
    };
    let delivery = Delivery {
        signal: arrived.signal,
        info: arrived.info,
        context,
        original_pc,
        interrupted,
        in_handler_inside: arrived.in_handler_inside,
        mask,
        blocked: Some(blocked),
    };
    // SAFETY: the caller's promise.
    unsafe { run::run(action, &delivery) };
}

/// Runs the handlers of the signals that wait for `frame`, which has decided, and restores `mask`; `decided` is what its own
/// signal is to be told.
///
/// # Safety
/// As [`dispatch`].
unsafe fn deliver_waiting(
    arrived: &Arrived,
    frame: &Frame,
    mask: u64,
    decided: Option<Interrupted>,
) {
    let mut has_run = false;
    while let Some((signal, info)) = frame.take() {
        let Some(action) = actions::action(signal) else {
            unhandled(signal, &info);
            continue;
        };
        let context = frame.context();
        let original_pc = context.program_counter();
        let waited = Arrived {
            signal,
            info: &info,
            ..*arrived
        };
        let interrupted = match decided {
            // Whatever keeps the sequence from being run to its end still does.
            Some(Interrupted::Inside) => decided,
            _ => {
                frame.begin();
                // SAFETY: the caller's promise.
                unsafe { decide(&waited, context) }
            }
        };
        frame.decided();
        let Some(interrupted) = interrupted else {
            continue;
        };
        let delivery = Delivery {
            signal,
            info: &info,
            context,
            original_pc,
            interrupted,
            in_handler_inside: arrived.in_handler_inside,
            mask,
            blocked: None,
        };
        // SAFETY: the caller's promise.
        unsafe { run::run(action, &delivery) };
        has_run = true;
    }
    if has_run {
        change_mask(libc::SIG_SETMASK, mask);
    }
}

/// Sees to the sequence that the interrupted code is in, if it is in one. Returns what the signal is to be told;
/// `None` if it is not to be delivered now.
///
/// # Safety
/// As [`dispatch`]; signals that arrive wait for this delivery.
unsafe fn decide(arrived: &Arrived, context: Context) -> Option<Interrupted> {
    let words = Words::of_this_thread();
    let is_masked = words.depth() > 0 && !controls::is_off(controls::DEFERRAL);
    if !(is_masked && arrived.can_wait()) {
        // SAFETY: the caller's promise.
        let interrupted = unsafe { complete(arrived, context) }?;
        return Some(match arrived.in_handler_inside {
            true => Interrupted::Inside,
            false => interrupted,
        });
    }
    // A handler that no mask holds back may come before the thread goes on.
    if actions::handles_unmaskable() {
        // SAFETY: the caller's promise.
        unsafe { complete(arrived, context) }?;
    }
    mask::defer(arrived.signal, arrived.info, context);
    None
}

/// Restarts the sequence that the interrupted code is in, or runs it to its end. `None` if the signal was put off, for one.
///
/// # Safety
/// As [`decide`].
unsafe fn complete(arrived: &Arrived, context: Context) -> Option<Interrupted> {
    let is_under_way = Words::of_this_thread().rollforward.is_under_way();
    let Some(row) = table::find(context.program_counter()) else {
        return Some(Interrupted::Plain);
    };
    Some(match row.clone {
        // In a fault's handler, which runs in the middle of a clone.
        _ if is_under_way && arrived.can_wait() => {
            mask::hold_back(arrived.signal, arrived.info, context);
            return None;
        }
        None if controls::is_off(controls::RESTART) => Interrupted::Plain,
        None => {
            context.set_program_counter(row.start);
            COUNTS.restarts.add();
            Interrupted::Restarted
        }
        Some(_) if controls::is_off(controls::ROLLFORWARD) => Interrupted::Plain,
        Some(_) if is_under_way => Interrupted::Inside,
        // SAFETY: the caller's promise; the entry's mask blocks managed signals.
        Some(clone) => unsafe {
            rollforward::run(arrived.signal, arrived.info, context, &row, &clone)?
        },
    })
}

/// A signal whose handler was removed while it was on its way.
fn unhandled(signal: c_int, info: &libc::siginfo_t) {
    // A fault happens again by itself.
    if !(FAULTS.contains(&signal) && info.si_code > 0) {
        // The kernel accepts what it has delivered, but for want of room; then the signal is one of many.
        let _ = queue_to_this_thread(signal, info);
    }
}

/// The kernel does with `signal` what it does without a handler. For a fault, when the handler returns; for others,
/// as soon as they are unblocked.
fn default_action(signal: c_int, info: &libc::siginfo_t) {
    // SAFETY: no function in it. Nothing can be done about a refusal, for which the kernel has no reason.
    let _ = unsafe { replace_disposition(signal, &Disposition::DEFAULT) };
    unhandled(signal, info);
}
