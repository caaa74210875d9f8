//! Rollforward (M94 2.2.2): an interrupted sequence first runs to its end, in a clone of it, inside
//! the handler.
//!
//! ```text
//!  thread     a b c │                                              │ end …
//!                   │ signal                                       │ original mask
//!  handler          └─ the thread's registers ─> d e (clone) ─> the thread's registers; pc = end ─> the signal's handler ┘
//!                      managed signals blocked
//! ```
//!
//! A sequence uses no stack, so its clone can run on the handler's. That spares a second way into
//! the kernel, which a trap at the clone's end would be.

use core::ffi::{c_int, c_void};

use super::super::statistics::COUNTS;
use super::words::Words;
use super::{Interrupted, faults, keep, mask};
use crate::arch::{roll, roll_abandoned};
use crate::platform::Context;
use crate::sequence::table::{self, Row};

/// Runs an interrupted sequence to its end, so that the thread continues after it. Returns what the
/// signal's handler reports as interrupted; `None` if the signal must not be delivered any more.
///
/// # Safety
/// `info` and `context` are those of a handler that runs on this thread with managed signals
/// blocked. The program counter is inside `row`, whose clone is `clone`.
pub unsafe fn run(
    signal: c_int,
    info: &libc::siginfo_t,
    context: Context,
    row: &Row,
    clone: &table::Clone,
) -> Option<Interrupted> {
    let pc = context.program_counter();
    let rollforward = &Words::of_this_thread().rollforward;
    rollforward.start(signal, info, context.mask());
    // SAFETY: the caller's promise; a clone has the same instructions at the same offsets.
    let place = unsafe { roll(context.registers(), clone.start + (pc - row.start)) };
    // The handler of a fault may have left the sequence, changed the thread's mask, or forked.
    let is_whole = place != 0;
    if is_whole {
        // SAFETY: the clone's end says that this is its place.
        context.set_program_counter(unsafe { table::landing(place) });
    }
    let pending = rollforward.take()?;
    context.set_mask(pending.mask);
    let interrupted = if is_whole {
        COUNTS.rollforwards.add();
        Interrupted::RolledForward
    } else {
        faults::report_abandoned(signal, context.program_counter());
        Interrupted::Inside
    };
    pending.signal.map(|_| interrupted)
}

/// Makes a thread with a fault in a clone return to the handler that runs the clone. After that
/// handler the thread continues as `context` says now. `outer` is the context that the handler has
/// got; `stack_pointer` and `mask` are the clone's.
///
/// The fault's handler does not return straight to where the thread continues, because the thread's
/// vector registers are only in `outer`.
pub fn leave(outer: Context, context: Context, stack_pointer: usize, mask: u64) {
    outer.copy_registers(context);
    outer.set_mask(context.mask());
    context.set_program_counter(roll_abandoned());
    context.set_stack_pointer(stack_pointer);
    context.clear_flags_for_call();
    context.set_mask(mask);
}

/// Returns the place in the sequence that corresponds to a place in its clone; any other place is
/// returned as it is.
///
/// For profilers. A sample taken by a handler that atomseq does not call may lie in a clone, which
/// has neither a name nor unwind information.
/// [`Event::original_pc`](super::super::Event::original_pc) is translated already.
/// Async-signal-safe; costs a look-up.
pub fn original_pc(pc: usize) -> usize {
    let row = table::find_clone(pc);
    row.and_then(|row| row.original(pc)).unwrap_or(pc)
}

/// Abandons the rollforward under way on this thread, and queues its signal again. Returns whether
/// there was one.
///
/// For handlers of faults that do not return. Call it before whatever leaves the handler, which
/// must restore a signal mask; [`siglongjmp`] here does both by itself. Otherwise the signal that
/// waits for the end of the sequence would wait indefinitely, and so would all later ones. What the
/// sequence has stored by then stays stored. Code that leaves the handler without returning must
/// keep all rules of [`siglongjmp`]; those about structures apply whether this returns `true` or
/// not. Async-signal-safe.
pub fn abandon_rollforward() -> bool {
    match Words::of_this_thread().rollforward.take() {
        Some(pending) => {
            if let Some(signal) = pending.signal {
                mask::wait_blocked(signal, &pending.info);
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

/// Jumps by the C library's `siglongjmp` out of a handler, and abandons the rollforward that this
/// leaves, if there is one.
///
/// # Safety
///
/// As in C: `environment` was filled in by a `sigsetjmp` (with a mask saved) whose caller has not
/// returned. No frame of Rust code that has something to drop may lie between, and no
/// [`mask`](crate::signal::mask()).
///
/// If the handler has interrupted an operation of [`dcas`](crate::dcas) or
/// [`nonblocking`](crate::nonblocking), the structure is neither moved nor freed from then on, nor
/// is what it is in. An operation that is left half done stays in the structure by its address, and
/// the next thread that meets it completes it or rolls it back there.
pub unsafe fn siglongjmp(environment: *mut c_void, value: c_int) -> ! {
    abandon_rollforward();
    // Otherwise kept signals would wait for the end of another mask.
    keep::queue_before_jump();
    // SAFETY: the caller's promise.
    unsafe { libc_siglongjmp(environment, value) }
}
