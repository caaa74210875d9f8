//! Rollforward (M94 2.2.2): an interrupted sequence first runs to its end, in a clone of it, inside the handler.
//!
//! ```text
//!  thread     a b c │                                              │ end …
//!                   │ signal                                       │ original mask
//!  handler          └─ the thread's registers ─> d e (clone) ─> the thread's registers; pc = end ─> the signal's handler ┘
//!                      managed signals blocked
//! ```
//!
//! A sequence uses no stack, so its clone can run on the handler's. That spares a second way into the kernel, which a
//! trap at the clone's end would be.

use core::ffi::{c_int, c_void};

use super::super::statistics::COUNTS;
use super::mask;
use super::words::{NOTHING, Words};
use crate::arch::roll;
use crate::platform::Context;
use crate::sequence::table::{self, Row};

/// Runs an interrupted sequence to its end: then the thread goes on after it. `false` if the signal that did it is not
/// to be delivered any more.
///
/// # Safety
/// `info` and `context` are those of a handler that runs on this thread, in which managed signals are blocked; the
/// program counter is inside `row`, whose clone is `clone`.
pub unsafe fn run(
    signal: c_int,
    info: &libc::siginfo_t,
    context: Context,
    row: &Row,
    clone: &table::Clone,
) -> bool {
    let pc = context.program_counter();
    let rollforward = &Words::of_this_thread().rollforward;
    rollforward.start(signal, info, context.mask(), pc, context.stack_pointer());
    // SAFETY: the caller's promise; a clone is the same instructions in the same places.
    let place = unsafe { roll(context.registers(), clone.start + (pc - row.start)) };
    // SAFETY: the clone's end says that this is its place.
    context.set_program_counter(unsafe { table::landing(place) });
    // A fault's handler may have changed the mask that the thread goes on with, or forked: then there is no signal.
    let Some(pending) = rollforward.take() else {
        return false;
    };
    context.set_mask(pending.mask);
    COUNTS.rollforwards.add();
    pending.signal != NOTHING
}

/// Where in the original a place in a clone is; another place is where it is.
///
/// For profilers: a sample taken by a handler that atomseq does not call may lie in a clone, which has neither a
/// name nor unwind information. ([`Event::original_pc`](super::super::Event::original_pc) is right already.)
/// Async-signal-safe.
pub fn original_pc(pc: usize) -> usize {
    let row = table::find_clone(pc);
    row.and_then(|row| row.original(pc)).unwrap_or(pc)
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
