//! A thread that exits in front of a chosen instruction, as a handler ends it that makes the system
//! call `exit`.
//!
//! The trap flag stops the thread at each instruction. Where it blocks signals, no handler can run
//! and so none can end it: the steps go on where that stretch ends (see [`crate::blocked`]).

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::blocked;
use crate::signals::stepper::{clear_trap_flag, set_trap_flag};
use crate::trap::STEP;

/// How many instructions there were so far, and in front of which the thread exits.
static STEPS: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicU64 = AtomicU64::new(0);

/// Runs `work`, and exits the thread in front of the instruction of this number. Returns if there
/// is none of that number. For one thread of a process at a time.
pub fn exit_at(number: u64, work: impl FnOnce()) {
    STEPS.store(0, Relaxed);
    LAST.store(number, Relaxed);
    for signal in [libc::SIGTRAP, blocked::SIGNAL] {
        blocked::handle(signal, on_step);
    }
    set_trap_flag();
    work();
    clear_trap_flag();
}

extern "C" fn on_step(signal: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    if STEPS.fetch_add(1, Relaxed) == LAST.load(Relaxed) {
        // SAFETY: ends this thread, and no other; its stack stays mapped.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    // SAFETY: the kernel passes the interrupted thread's context to an SA_SIGINFO handler.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    if blocked::is_blocking(context) {
        blocked::block(context);
        context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !STEP;
    } else if signal == blocked::SIGNAL {
        // The stretch has ended.
        context.uc_mcontext.gregs[libc::REG_EFL as usize] |= STEP;
    }
}
