//! Rollforward (M94 2.2.2): an interrupted sequence first runs to its end, in a clone that ends in a trap.
//!
//! ```text
//!  thread     a b c │                    │ d e   trap │                    │ end …
//!                   │ signal             │ (clone)    │ SIGILL             │ original mask
//!  handlers         └─ start: pc ─> clone┘            └─ finish: pc ─> end ┘
//!                      managed blocked,                  pending signal's handler
//!                      SIGILL not
//! ```

use core::ffi::{c_int, c_void};

use super::super::statistics::COUNTS;
use super::actions::{self, TRAP};
use super::run::{self, Delivery};
use super::words::{NOTHING, Words};
use super::{Interrupted, controls, mask};
use crate::arch::is_trap;
use crate::platform::{Context, bit};
use crate::sequence::table::{self, Row};

/// Sends the thread into the clone, where it goes on when the handler returns.
pub fn start(
    signal: c_int,
    info: &libc::siginfo_t,
    context: Context,
    row: &Row,
    clone: &table::Clone,
) {
    let pc = context.program_counter();
    let original_mask = context.mask();
    Words::of_this_thread()
        .rollforward
        .start(signal, info, original_mask, pc);
    context.set_program_counter(clone.start + (pc - row.start));
    let trap = if controls::is_off(controls::TRAP_UNBLOCKED) {
        0
    } else {
        bit(TRAP)
    };
    context.set_mask((original_mask | actions::covering_mask()) & !trap);
}

/// What the kernel calls on the trap signal: the end of a clone, or somebody else's illegal instruction.
pub unsafe extern "C" fn trap_entry(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the kernel calls this, or a handler that passes on what it got.
    let (info, context) = unsafe { (&*info, Context::new(context)) };
    let pc = context.program_counter();
    let is_end = info.si_code > 0
        && Words::of_this_thread().rollforward.is_under_way()
        && table::find_clone(pc).is_some()
        // SAFETY: an instruction that this thread was about to execute.
        && unsafe { is_trap(pc) };
    if is_end {
        // SAFETY: a clone's trap, and what the kernel passed.
        unsafe { finish(context) };
    } else {
        // SAFETY: what the kernel passed.
        unsafe { super::dispatch(signal, info, context) };
    }
}

/// The clone has come to its end: the thread will go on after the sequence, and the pending signal is handled.
///
/// # Safety
/// In the trap's handler, with its context; the program counter is at a clone's trap.
unsafe fn finish(context: Context) {
    let Some(pending) = Words::of_this_thread().rollforward.take() else {
        return;
    };
    let clone_mask = context.mask();
    // SAFETY: at a trap.
    context.set_program_counter(unsafe { table::landing(context.program_counter()) });
    context.set_mask(pending.mask);
    if pending.signal == NOTHING {
        return;
    }
    COUNTS.rollforwards.add();
    let Some(action) = actions::action(pending.signal) else {
        return super::unhandled(pending.signal, &pending.info);
    };
    if is_on_wrong_stack(action, context) {
        // Unblocked on return, it comes again on the right one, at the end of the sequence.
        return mask::queue_again(pending.signal, &pending.info);
    }
    let delivery = Delivery {
        signal: pending.signal,
        info: &pending.info,
        context,
        original_pc: pending.pc,
        interrupted: Interrupted::RolledForward,
        mask: pending.mask,
        blocked: Some(clone_mask | actions::covering_mask()),
    };
    // SAFETY: the caller's promise.
    unsafe { run::run(action, &delivery) };
}

/// The trap's handler runs on the alternate stack as soon as one handler asks for that; the others must not.
fn is_on_wrong_stack(action: &actions::Action, context: Context) -> bool {
    let here = &raw const context as usize;
    action.options.stack.is_none()
        && context.is_on_alternate_stack(here)
        && !context.is_on_alternate_stack(context.stack_pointer())
}

/// Where in the original a place in a clone is; another place is where it is.
///
/// For profilers: a sample taken by a handler that atomseq does not call may lie in a clone, which has neither a
/// name nor unwind information. ([`Event::original_pc`](super::super::Event::original_pc) is right already.)
/// Async-signal-safe.
pub fn original_pc(pc: usize) -> usize {
    match table::find_clone(pc) {
        Some(row) => in_original(&row, pc),
        None => pc,
    }
}

/// As [`original_pc`], for the clone of `row`.
pub fn in_original(row: &Row, pc: usize) -> usize {
    let Some(clone) = row.clone else { return pc };
    // SAFETY: `pc` is that of an instruction of the clone; if it is a trap, it has a landing.
    if unsafe { is_trap(pc) } {
        // SAFETY: as above.
        return unsafe { table::landing(pc) };
    }
    row.start + (pc - clone.start)
}

/// Gives up the rollforward under way on this thread, if there is one: its signal is queued again. `true` if there was
/// one.
///
/// For handlers of faults that will not return: whatever takes them elsewhere ([`siglongjmp`] does this by itself) must
/// be preceded by it, and must restore a signal mask. Otherwise the signal that waits for the end of the sequence would
/// wait forever, and with it all that come later. What the sequence has stored by then stays stored.
/// Async-signal-safe.
pub fn abandon_rollforward() -> bool {
    match Words::of_this_thread().rollforward.take() {
        Some(pending) => {
            if pending.signal != NOTHING {
                mask::queue_again(pending.signal, &pending.info);
            }
            true
        }
        None => false,
    }
}

unsafe extern "C" {
    #[link_name = "siglongjmp"]
    fn libc_siglongjmp(environment: *mut c_void, value: c_int) -> !;
}

/// The C library's `siglongjmp`, for handlers: gives up the rollforward that it leaves, if it leaves one.
///
/// # Safety
///
/// As in C: `environment` was filled in by a `sigsetjmp` (with a mask saved) whose caller has not returned. No frame of
/// Rust code that has something to drop may lie between, and no [`mask`](crate::signal::mask()).
pub unsafe fn siglongjmp(environment: *mut c_void, value: c_int) -> ! {
    abandon_rollforward();
    // SAFETY: the caller's promise.
    unsafe { libc_siglongjmp(environment, value) }
}
