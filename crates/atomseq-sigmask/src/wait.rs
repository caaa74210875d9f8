//! Calls that wait with another mask. The C library's functions make them, so that a thread can be
//! cancelled there; the thread's state says with which mask, since the mask of a handler that
//! interrupts the wait is made of that. A handler may throw an exception through these calls, as in
//! the C library: they are cancellation points, so C++ catches what they throw.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::compiler_fence;

use crate::action::set_of;
use crate::arch;
use crate::real::{Function, function};
use crate::thread::{Thread, UNBLOCKABLE, bit};

/// A call that waits with a mask. A signal may come before and after the system call, whose
/// handlers make system calls of their own, and may not return: so an interrupted system call is
/// this one only if its stack and its arguments are.
#[derive(Clone, Copy)]
pub struct Waiting {
    mask: u64,
    /// The address of the mask.
    set: usize,
    /// The stack pointer below which the call is, or 0 if there is none.
    pub stack: usize,
}

/// No function of the C library that waits needs more stack, and a signal's frame needs more.
const STACK: usize = 512;

impl Waiting {
    /// Returns the call that is in progress.
    fn now(thread: &Thread) -> Waiting {
        Waiting {
            mask: thread.waiting_mask.load(Relaxed),
            set: thread.waiting_set.load(Relaxed) as usize,
            stack: thread.waiting_stack.load(Relaxed) as usize,
        }
    }

    /// Makes this the call that is in progress. A handler in between finds none.
    fn set(self, thread: &Thread) {
        thread.waiting_stack.store(0, Relaxed);
        compiler_fence(SeqCst);
        thread.waiting_mask.store(self.mask, Relaxed);
        thread.waiting_set.store(self.set as u64, Relaxed);
        compiler_fence(SeqCst);
        thread.waiting_stack.store(self.stack as u64, Relaxed);
        compiler_fence(SeqCst);
    }

    /// Returns whether this is the system call after which a signal came.
    fn is(&self, frame: &libc::ucontext_t) -> bool {
        let register = |index: i32| frame.uc_mcontext.gregs[index as usize] as usize;
        let below = self.stack.wrapping_sub(register(libc::REG_RSP));
        if self.stack == 0 || below >= STACK {
            return false;
        }
        // `rt_sigsuspend`; `ppoll`; `epoll_pwait` and `io_uring_enter`.
        [libc::REG_RDI, libc::REG_R10, libc::REG_R8].map(register).contains(&self.set)
            // `pselect6` and `io_pgetevents` have the address of the mask's address, as
            // `io_uring_enter` may have.
            || [libc::REG_R9, libc::REG_R8]
                .map(register)
                .iter()
                .any(|&address| arch::read(address) == Some(self.set as u64))
    }
}

/// Returns the mask of the call that a signal interrupted, if that waits with a mask and this is
/// the first signal that it let in: the kernel has put the thread's mask back for the others. One
/// that the mask blocks comes after the call: a signal that stops the process may have ended it.
/// `kernel` is the mask after the call: what that blocks only the call has let in, though it may
/// not have failed. An `io_uring_enter` that has submitted returns how much.
pub fn interrupted(
    thread: &Thread,
    frame: &libc::ucontext_t,
    signal: i32,
    kernel: u64,
) -> Option<u64> {
    let waiting = Waiting::now(thread);
    let is_let_in = || kernel & bit(signal) != 0 || arch::interrupted_code(frame).is_some();
    if !waiting.is(frame) || !is_let_in() {
        return None;
    }
    thread.waiting_stack.store(0, Relaxed);
    (waiting.mask & bit(signal) == 0).then_some(waiting.mask)
}

/// Calls a function of the C library that waits with a mask.
unsafe fn wait(
    function: Function,
    mask: *const libc::sigset_t,
    [a, b, c, d, e, f, g]: [usize; 7],
) -> isize {
    // SAFETY: the C library's function, which takes at most seven words.
    let call = unsafe {
        function!(
            function,
            fn(usize, usize, usize, usize, usize, usize, usize) -> isize
        )
    };
    let Some(thread) = Thread::current() else {
        // SAFETY: the caller's promise.
        return unsafe { call(a, b, c, d, e, f, g) };
    };
    thread.publish();
    let before = Waiting::now(thread);
    if !mask.is_null() {
        let waiting = Waiting {
            // SAFETY: the caller's promise.
            mask: unsafe { set_of(mask) } & !UNBLOCKABLE,
            set: mask as usize,
            stack: arch::stack(),
        };
        waiting.set(thread);
    }
    // SAFETY: the caller's promise.
    let result = unsafe { call(a, b, c, d, e, f, g) };
    compiler_fence(SeqCst);
    // A handler may have let another context run, and this one go on in another thread.
    before.set(Thread::block());
    result
}

/// The system calls that wait with a mask, by `syscall(3)`.
///
/// # Safety
///
/// As of the system call.
pub unsafe extern "C-unwind" fn system_call(
    number: i64,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> isize {
    /// The libc crate has it for other processors only.
    const IO_PGETEVENTS: i64 = 333;
    /// `IORING_ENTER_EXT_ARG`.
    const EXTENDED: usize = 8;
    let set = match number {
        libc::SYS_rt_sigsuspend => a,
        libc::SYS_ppoll => d,
        libc::SYS_pselect6 | IO_PGETEVENTS => arch::read(f).unwrap_or(0) as usize,
        libc::SYS_io_uring_enter if d & EXTENDED != 0 => arch::read(e).unwrap_or(0) as usize,
        _ => e,
    };
    // The kernel refuses what cannot be read.
    let mask = match arch::is_readable(set) {
        true => set as *const libc::sigset_t,
        false => std::ptr::null(),
    };
    // SAFETY: the caller's promise.
    unsafe { wait(Function::syscall, mask, [number as usize, a, b, c, d, e, f]) }
}

/// `sigsuspend`.
///
/// # Safety
///
/// As of `sigsuspend(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigsuspend(mask: *const libc::sigset_t) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        wait(
            Function::sigsuspend,
            mask,
            [mask as usize, 0, 0, 0, 0, 0, 0],
        ) as i32
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __sigsuspend(mask: *const libc::sigset_t) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { sigsuspend(mask) }
}

/// Exports functions, of which the argument of this index is the mask.
macro_rules! waits {
    ($($name:ident $mask:literal;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
        ) -> i32 {
            let arguments = [a, b, c, d, e, f, 0];
            let mask = arguments[$mask] as *const libc::sigset_t;
            // SAFETY: the caller's promise.
            unsafe { wait(Function::$name, mask, arguments) as i32 }
        }
    )*};
}
waits! {
    ppoll 3;
    __ppoll_chk 3;
    pselect 5;
    epoll_pwait 4;
    epoll_pwait2 4;
}
