//! What the kernel calls in place of the program's handlers.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::compiler_fence;

use crate::control::{Protection, protects};
use crate::thread::{EAGER, Thread, UNBLOCKABLE, bit};
use crate::{action, arch, context, wait};

type Handler = unsafe extern "C-unwind" fn(i32, *mut libc::siginfo_t, *mut libc::ucontext_t);

/// Handles a signal: the program's handler runs if its mask lets the signal in, else the signal is
/// deferred.
///
/// All signals are blocked except while the handler runs. So no handler that jumps away can lose
/// this signal, and none that interrupts another's return can change what that has read here.
pub unsafe extern "C-unwind" fn entry(
    signal: i32,
    information: *mut libc::siginfo_t,
    frame: *mut libc::ucontext_t,
) {
    // SAFETY: what the kernel gives a handler with `SA_SIGINFO`.
    let frame = unsafe { &mut *frame };
    // SAFETY: the frame is the kernel's, and holds a mask.
    let mask = unsafe { context::mask_of(frame) };
    // SAFETY: the mask that the kernel's return sets.
    let kernel = unsafe { *mask };
    let thread = Thread::interrupted(kernel);
    let lazy = thread.lazy.load(Relaxed);
    let signal_bit = bit(signal);
    // A trap after each instruction would restart it indefinitely.
    if signal != libc::SIGTRAP {
        arch::restart_sequence(frame, thread, kernel);
        // Until glibc 2.41, `abort` unblocks its signal by itself. That is never lazy.
        let abort = bit(libc::SIGABRT);
        if (lazy | kernel) & abort == 0 {
            for mask in [&thread.program, &thread.kernel] {
                mask.store(mask.load(Relaxed) & !abort, Relaxed);
            }
        }
    }
    let kept = (thread.program.load(Relaxed), thread.kernel.load(Relaxed));
    let program = kept.0;
    // A wait with another mask lets signals in that the mask after it blocks.
    if program & lazy & signal_bit & !kernel != 0 && protects(Protection::Deferral) {
        thread
            .deferred
            .store(thread.deferred.load(Relaxed) + 1, Relaxed);
        // Those of `queue`, and the return.
        thread.add_system_calls(4);
        // SAFETY: the kernel's arguments. The signal is blocked until the return, and after it.
        unsafe {
            arch::queue(signal, information);
            if protects(Protection::Restart) {
                arch::restart(frame);
            }
            *mask = program;
        }
        thread.kernel.store(program, Relaxed);
        return;
    }
    let action = action::of(signal);
    if action.handler == libc::SIG_DFL {
        if !protects(Protection::Default) {
            return;
        }
        action::default(thread, signal);
        // The default action comes when this returns, also if a wait with another mask has let the
        // signal in, and before any other signal is handled. Process 1 has none.
        // SAFETY: the kernel's argument, and the mask lies in this handler's frame.
        unsafe {
            let ends = arch::process() != 1 && arch::queue(signal, information);
            if ends && protects(Protection::Waiting) {
                *mask = !signal_bit;
            }
        }
        return;
    }
    let (base, kernel_base) = match wait::interrupted(thread, frame, signal, kernel) {
        Some(waiting) if protects(Protection::Waiting) => (waiting, waiting),
        _ => (program, kernel),
    };
    let mut added = action.mask;
    if action.flags & libc::SA_NODEFER == 0 {
        added |= signal_bit;
    }
    if !protects(Protection::HandlerMask) {
        added = 0;
    }
    let alternate = is_on_signal_stack(frame) && protects(Protection::SignalStack);
    let mut blocked = (kernel_base | added) & !UNBLOCKABLE;
    if alternate {
        thread.enter_signal_stack();
        blocked |= base;
    }
    thread.program.store((base | added) & !UNBLOCKABLE, Relaxed);
    thread.kernel.store(blocked, Relaxed);
    // SAFETY: the handler reads the program's mask there, and may change it.
    unsafe { *mask = program };
    // The kernel's return does not read this.
    frame.uc_mcontext.gregs[libc::REG_OLDMASK as usize] = program as i64;
    thread.add_system_calls(2);
    compiler_fence(SeqCst);
    arch::set_mask(blocked);
    // SAFETY: the program installed this address as a handler. One without `SA_SIGINFO` finds more
    // in registers, as it does when the kernel calls it.
    unsafe {
        let handler: Handler = std::mem::transmute(action.handler);
        handler(signal, information, frame);
    }
    compiler_fence(SeqCst);
    if !EAGER.load(Relaxed) {
        arch::set_mask(!0);
    }
    // The handler may have let another context run, and this one go on in another thread.
    let thread = Thread::block();
    // SAFETY: the mask lies in this handler's frame.
    let after = unsafe { *mask } & !UNBLOCKABLE;
    if EAGER.load(Relaxed) {
        // It has ended that signals are lazy: the kernel's return sets what is in the frame.
        return thread.set_both(after);
    }
    if alternate {
        thread.leave_signal_stack();
    }
    if after != program && protects(Protection::Context) {
        thread.set_both(after);
        return;
    }
    thread.program.store(kept.0, Relaxed);
    // The handler may have ended that a signal is lazy which is blocked here.
    let mut no_longer = program & lazy & !thread.lazy.load(Relaxed);
    if !protects(Protection::NoLonger) {
        no_longer = 0;
    }
    // A call that the handler has ended has ended: a signal that is deferred now would restart it.
    if program & !kernel != 0
        && arch::interrupted_code(frame).is_some()
        && protects(Protection::Ended)
    {
        no_longer = program;
    }
    thread.kernel.store(kept.1 | no_longer, Relaxed);
    // SAFETY: the mask lies in this handler's frame.
    unsafe { *mask = kernel | no_longer };
}

/// Returns whether a handler of this frame is on a signal stack.
fn is_on_signal_stack(frame: &libc::ucontext_t) -> bool {
    let stack = &frame.uc_stack;
    arch::stack().wrapping_sub(stack.ss_sp as usize) < stack.ss_size
}
