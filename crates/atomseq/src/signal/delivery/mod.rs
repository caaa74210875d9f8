//! Delivery where sequences are protected: Linux on x86-64 and AArch64.
//!
//! ```text
//! kernel ─> entry ─┬─ fault ──────────────> faults.rs   where the sequence would have had it
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
use crate::platform::{Context, Disposition, bit, queue_to_this_thread, replace_disposition};
use crate::sequence::table;
use actions::{FAULTS, NEVER_BLOCKED};
use run::Delivery;
use words::Words;

/// What the kernel calls on every signal that is managed or adopted.
unsafe extern "C" fn entry(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel calls this, or a handler that passes on what it got.
    unsafe { dispatch(signal, &*info, Context::new(context)) };
}

/// Decides what a signal has interrupted, and acts on it.
///
/// # Safety
/// `info` and `context` are those of a handler that runs on this thread.
unsafe fn dispatch(signal: c_int, info: &libc::siginfo_t, context: Context) {
    let words = Words::of_this_thread();
    let kept = words.saved.take(signal, info);
    let info = kept.as_ref().unwrap_or(info);
    let Some(action) = actions::action(signal) else {
        return unhandled(signal, info);
    };
    let is_fault = FAULTS.contains(&signal) && info.si_code > 0 || signal == libc::SIGABRT;
    if is_fault {
        // SAFETY: the caller's promise.
        return unsafe { faults::deliver(action, signal, info, context) };
    }
    let can_wait = bit(signal) & NEVER_BLOCKED == 0;
    if can_wait && words.depth() > 0 && !controls::is_off(controls::DEFERRAL) {
        return mask::defer(signal, info, context);
    }
    let pc = context.program_counter();
    let blocked = context.mask() | action.kernel_mask(signal);
    let mut interrupted = Interrupted::Plain;
    if let Some(row) = table::find(pc) {
        match row.clone {
            _ if words.rollforward.is_under_way() && can_wait => {
                return mask::hold_back(signal, info, context);
            }
            None if controls::is_off(controls::RESTART) => {}
            None => {
                context.set_program_counter(row.start);
                COUNTS.restarts.add();
                interrupted = Interrupted::Restarted;
            }
            Some(_) if controls::is_off(controls::ROLLFORWARD) => {}
            Some(_) if words.rollforward.is_under_way() => interrupted = Interrupted::Inside,
            Some(clone) => {
                // SAFETY: the caller's promise; the entry's mask blocks managed signals.
                let outcome = unsafe { rollforward::run(signal, info, context, &row, &clone) };
                let Some(outcome) = outcome else {
                    return;
                };
                interrupted = outcome;
            }
        }
    } else if words.rollforward.is_under_way() && table::find_clone(pc).is_some() {
        if can_wait {
            // It has become managed since the rollforward began.
            return mask::hold_back(signal, info, context);
        }
        // SAFETY: the caller's promise.
        return unsafe { faults::deliver(action, signal, info, context) };
    }
    let delivery = Delivery {
        signal,
        info,
        context,
        original_pc: pc,
        interrupted,
        mask: context.mask(),
        blocked: Some(blocked),
    };
    // SAFETY: the caller's promise.
    unsafe { run::run(action, &delivery) };
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
