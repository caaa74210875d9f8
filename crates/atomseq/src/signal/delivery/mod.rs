//! Delivery where sequences are protected: Linux on x86-64 and AArch64.
//!
//! ```text
//! kernel ─> entry ─┬─ fault ──────────────> faults.rs   where the sequence would have had it
//!                  ├─ inside a mask ──────> mask.rs     blocked; queued again, or kept (keep.rs): delivered when the mask ends
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
mod keep;
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

use super::statistics::COUNTS;
use super::{Chained, Interrupted};
use crate::platform::{
    Context, Disposition, Entry, bit, disposition, replace_disposition, replace_disposition_if,
};
use crate::sequence::table;
use actions::{Action, FAULTS, NEVER_BLOCKED};
use run::Delivery;
use words::Words;

/// What the kernel calls on every signal that is managed or adopted; one of them a signal, or more ([`actions::ENTRIES`]).
unsafe extern "C" fn entry<const NUMBER: usize>(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the kernel calls this, or a handler that passes on what it got.
    unsafe { dispatch(NUMBER, signal, &*info, Context::new(context)) };
}

/// All of them.
const ENTRIES: [Entry; actions::ENTRIES] = [
    entry::<0>,
    entry::<1>,
    entry::<2>,
    entry::<3>,
    entry::<4>,
    entry::<5>,
    entry::<6>,
    entry::<7>,
    entry::<8>,
    entry::<9>,
    entry::<10>,
    entry::<11>,
    entry::<12>,
    entry::<13>,
    entry::<14>,
    entry::<15>,
];

/// Decides what a signal has interrupted, and acts on it.
///
/// # Safety
/// `info` and `context` are those of a handler that runs on this thread.
unsafe fn dispatch(entry: usize, signal: c_int, info: &libc::siginfo_t, context: Context) {
    let words = Words::of_this_thread();
    let record = words.saved.take(signal, info);
    let info = record.as_ref().unwrap_or(info);
    let action = match actions::of_entry(signal, entry) {
        Some(action) if !action.is_retired() => action,
        // SAFETY: the caller's promise.
        _ => return unsafe { pass_on(entry, signal, info, context) },
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
    unsafe {
        run::run(action, &delivery);
        keep::run_after_handler(context);
    }
}

/// A signal that has no handler here any more: does what the entry stands for.
///
/// That may be a handler which passes signals on to this entry, for it has read the disposition while the entry was
/// installed over it. So the frame notes which entries are passing on; one that jumps takes the note along.
///
/// # Safety
/// As [`dispatch`].
unsafe fn pass_on(entry: usize, signal: c_int, info: &libc::siginfo_t, context: Context) {
    let passing = context.link();
    if passing & 1 << entry != 0 {
        return;
    }
    let retired = actions::of_entry(signal, entry);
    let rest = Previous(retired.map_or(Disposition::DEFAULT, Action::rest));
    context.set_link(passing | 1 << entry);
    // SAFETY: the caller's promise.
    let chained = unsafe { rest.call(signal, info, context.as_ptr()) };
    context.set_link(passing);
    match chained {
        Chained::Called => {}
        // No program can ignore a fault: the kernel kills.
        Chained::Ignored if !is_raised_by_fault(signal, info) => {}
        Chained::Ignored | Chained::Default => default_action(signal, info),
    }
}

const _: () = assert!(actions::ENTRIES < usize::BITS as usize);

fn is_raised_by_fault(signal: c_int, info: &libc::siginfo_t) -> bool {
    FAULTS.contains(&signal) && info.si_code > 0
}

/// The kernel does with `signal` what it does without a handler. For a fault, which happens again, when the handler
/// returns; for others, as soon as they are unblocked.
///
/// A handler of other code that has called the entry stays, unless a fault would go back and forth between the two: it has
/// handled the signal, and queueing that again would call it without end.
fn default_action(signal: c_int, info: &libc::siginfo_t) {
    let default = &Disposition::DEFAULT;
    if is_raised_by_fault(signal, info) {
        // SAFETY: no function in it. Nothing can be done about a refusal, for which the kernel has no reason.
        let _ = unsafe { replace_disposition(signal, default) };
        return;
    }
    // SAFETY: as above.
    let _ = unsafe {
        replace_disposition_if(signal, default, |now| {
            cover::entry_of(now).is_some() && actions::action(signal).is_none()
        })
    };
    let is_left_to_kernel = disposition(signal).is_ok_and(|now| !now.is_function());
    if is_left_to_kernel && !mask::queue_again(signal, info) {
        COUNTS.lost_signals.add();
    }
}
