//! What the assembly of contexts, jumps and `vfork` calls.

use std::sync::atomic::Ordering::Relaxed;

use crate::control::{Protection, protects};
use crate::real::{self, Function, function};
use crate::thread::{INTERNAL, Thread};
use crate::{arch, mask, thread};

/// Returns where a context has its mask, of which only these eight bytes are used.
///
/// # Safety
///
/// A valid context.
pub unsafe fn mask_of(context: *mut libc::ucontext_t) -> *mut u64 {
    // SAFETY: the caller's promise.
    unsafe { (&raw mut (*context).uc_sigmask).cast() }
}

/// Saves the mask in one context, and sets that of the other, which may be the same.
pub unsafe extern "C-unwind" fn exchange(from: *mut libc::ucontext_t, to: *mut libc::ucontext_t) {
    // SAFETY: the program's contexts, valid by the contract of `swapcontext`.
    unsafe {
        let new = match protects(Protection::Jumps) {
            true => *mask_of(to),
            false => mask::now(),
        };
        mask::change_into(libc::SIG_SETMASK, new, mask_of(from));
    }
}

/// Sets the mask of a context.
pub unsafe extern "C-unwind" fn set(to: *mut libc::ucontext_t) {
    // SAFETY: the program's context, valid by the contract of `setcontext`.
    let new = unsafe { *mask_of(to) };
    if protects(Protection::Jumps) {
        mask::change(libc::SIG_SETMASK, new);
    }
}

/// A signal's frame and what this library adds need less than this.
const SMALL: usize = 16_384;

/// Prepares a context to call a function: as the C library does, except that the function returns
/// to this library.
pub unsafe extern "C-unwind" fn make(
    context: &mut libc::ucontext_t,
    function: usize,
    count: i32,
    registers: &[usize; 3],
    stack: *const usize,
) {
    const REGISTERS: [i32; 6] = [
        libc::REG_RDI,
        libc::REG_RSI,
        libc::REG_RDX,
        libc::REG_RCX,
        libc::REG_R8,
        libc::REG_R9,
    ];
    let count = count.max(0) as usize;
    let more = count.saturating_sub(REGISTERS.len());
    // A signal that is blocked here only has room on a larger stack for what defers it.
    if context.uc_stack.ss_size < SMALL {
        thread::end_laziness();
    }
    let end = context.uc_stack.ss_sp as usize + context.uc_stack.ss_size;
    // A word for the link, aligned so that the stack is as after a call.
    let sp = ((end - (more + 1) * 8) & !15) - 8;
    let words = sp as *mut usize;
    // SAFETY: `uc_stack` is a stack of at least these words, and there are `count` arguments, by
    // the contract of `makecontext`.
    unsafe {
        *words = arch::finish_context as *const () as usize + 1;
        *words.add(more + 1) = context.uc_link as usize;
        for index in 0..count {
            let argument = match registers.get(index) {
                Some(&argument) => argument,
                None => *stack.add(index - registers.len()),
            };
            match REGISTERS.get(index) {
                Some(&register) => {
                    context.uc_mcontext.gregs[register as usize] = argument as i64;
                }
                None => *words.add(1 + index - REGISTERS.len()) = argument,
            }
        }
    }
    context.uc_mcontext.gregs[libc::REG_RIP as usize] = function as i64;
    context.uc_mcontext.gregs[libc::REG_RSP as usize] = sp as i64;
    context.uc_mcontext.gregs[libc::REG_RBX as usize] = (sp + (more + 1) * 8) as i64;
}

/// Goes on with the context that follows one whose function returned, or exits.
pub unsafe extern "C-unwind" fn finish(link: *const libc::ucontext_t) -> ! {
    let mut status = 0;
    if !link.is_null() {
        // SAFETY: `uc_link` is a valid context by the contract of `makecontext`.
        status = unsafe { libc::setcontext(link) };
    }
    real::exit(status)
}

/// A pair of words, which are returned in rax and rdx.
#[repr(C)]
pub struct Masks {
    program: u64,
    lazy: u64,
}

/// Blocks all signals in the kernel, and returns what [`after_vfork`] needs.
pub extern "C-unwind" fn before_vfork() -> Masks {
    // The first call of a thread takes over the mask.
    let _ = Thread::current();
    let thread = Thread::block();
    thread.add_system_calls(1);
    arch::change_mask(libc::SIG_SETMASK, !0);
    Masks {
        // Afterwards: a handler may have changed it.
        program: thread.program.load(Relaxed),
        // Lazy signals are standard ones: the upper half is free.
        lazy: thread.lazy.load(Relaxed) | u64::from(thread.vforked.load(Relaxed)) << 32,
    }
}

/// Sets the masks in the child, and restores them in the parent, which continues when the child has
/// exited or called `exec`.
pub extern "C-unwind" fn after_vfork(result: i64, program: u64, lazy: u64) -> i32 {
    let thread = Thread::block();
    let vforked = (lazy >> 32) as u32;
    if !protects(Protection::Vfork) {
        thread.synchronise();
        return result as i32;
    }
    thread.program.store(program, Relaxed);
    if result == 0 {
        // Its handlers in the kernel are no longer the parent's, so nothing that is changed in them
        // may be remembered: all masks go to the kernel.
        thread.vforked.store(arch::process() as u32, Relaxed);
        thread.lazy.store(0, Relaxed);
    } else {
        // A child that was killed in a call that waits has not returned from it.
        thread.leave_waits(arch::stack() as u64);
        thread.vforked.store(vforked, Relaxed);
        thread.lazy.store(lazy & u64::from(u32::MAX), Relaxed);
    }
    thread.synchronise();
    match result {
        ..0 => mask::fail(-result as i32),
        _ => result as i32,
    }
}

/// What the child of [`clone_vfork`] starts with, on its parent's stack.
struct Start {
    function: extern "C-unwind" fn(usize) -> i32,
    argument: usize,
    masks: Masks,
}

/// `clone` of a child that runs on this thread-local memory while its parent waits: as `vfork`, on
/// another stack.
pub unsafe extern "C-unwind" fn clone_vfork(
    function: extern "C-unwind" fn(usize) -> i32,
    stack: usize,
    flags: i32,
    argument: usize,
    parent: usize,
    tls: usize,
    child: usize,
) -> i32 {
    type Child = extern "C-unwind" fn(&Start) -> i32;
    // SAFETY: the C library's function, whose variable arguments are words.
    let clone = unsafe {
        function!(
            Function::clone,
            fn(Child, usize, i32, &Start, usize, usize, usize) -> i32
        )
    };
    let start = Start {
        function,
        argument,
        masks: before_vfork(),
    };
    // SAFETY: the caller's promise. The child uses `start` while this thread waits.
    let mut result = unsafe { clone(begin_child, stack, flags, &start, parent, tls, child) };
    if result < 0 {
        result = -mask::error();
    }
    after_vfork(result.into(), start.masks.program, start.masks.lazy)
}

extern "C-unwind" fn begin_child(start: &Start) -> i32 {
    after_vfork(0, start.masks.program, start.masks.lazy);
    (start.function)(start.argument)
}

/// What `__sigsetjmp` writes.
#[derive(Clone, Copy)]
#[repr(C)]
struct JumpBuffer {
    registers: [u64; 8],
    saved: i32,
    mask: [u64; 16],
}

/// Sets the saved mask, and lets the C library jump.
unsafe fn jump(function: Function, mut buffer: *const JumpBuffer, value: i32) -> ! {
    let mut copy;
    if let Some(thread) = Thread::current() {
        // SAFETY: a buffer that `sigsetjmp` filled, by the contract of `longjmp`.
        copy = unsafe { *buffer };
        let stack = arch::demangle(copy.registers[6]);
        thread.leave_waits(stack);
        thread.jump_off_signal_stack(stack as usize);
        if copy.saved != 0 {
            if protects(Protection::Jumps) {
                mask::change(libc::SIG_SETMASK, copy.mask[0] & !INTERNAL);
            }
            // In this copy: the mask is restored again by the next jump.
            copy.saved = 0;
        }
        buffer = &raw const copy;
    }
    // SAFETY: the C library's function of this type, of a buffer that it accepts.
    unsafe { function!(function, fn(*const JumpBuffer, i32) -> !)(buffer, value) }
}

/// Exports the functions that jump.
macro_rules! jumps {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(buffer: *const std::ffi::c_void, value: i32) -> ! {
            // SAFETY: the caller's promise.
            unsafe { jump(Function::$name, buffer.cast(), value) }
        }
    )*};
}
jumps!(siglongjmp longjmp _longjmp __longjmp_chk);
