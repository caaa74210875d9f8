//! Calls that wait with another mask. The C library's functions make them, so that a thread can be
//! cancelled there; the thread's state says with which mask, since the mask of a handler that
//! interrupts the wait is made of that.

use std::sync::atomic::{Ordering::Relaxed, compiler_fence};

use crate::action::set_of;
use crate::real::{self, Function};
use crate::thread::{INTERNAL, Thread, UNBLOCKABLE};

/// Calls a function of the C library that waits with a mask.
unsafe fn wait(
    function: Function,
    mask: *const libc::sigset_t,
    [a, b, c, d, e, f]: [usize; 6],
) -> i32 {
    type Call = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> i32;
    // SAFETY: the C library's function, which takes at most six words.
    let call: Call = unsafe { std::mem::transmute(real::address(function)) };
    let thread = Thread::current();
    thread.publish();
    if !mask.is_null() {
        // SAFETY: the caller's promise.
        let mask = unsafe { set_of(mask) } & !(UNBLOCKABLE | INTERNAL);
        thread.waiting_mask.store(mask, Relaxed);
        thread.waiting.store(true, Relaxed);
        compiler_fence(std::sync::atomic::Ordering::SeqCst);
    }
    // SAFETY: the caller's promise.
    let result = unsafe { call(a, b, c, d, e, f) };
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    thread.waiting.store(false, Relaxed);
    result
}

/// `sigsuspend`.
///
/// # Safety
///
/// As of `sigsuspend(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigsuspend(mask: *const libc::sigset_t) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { wait(Function::sigsuspend, mask, [mask as usize, 0, 0, 0, 0, 0]) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __sigsuspend(mask: *const libc::sigset_t) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { sigsuspend(mask) }
}

/// Exports functions, of which the argument of this index is the mask.
macro_rules! waits {
    ($($name:ident $mask:literal;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
        ) -> i32 {
            let arguments = [a, b, c, d, e, f];
            let mask = arguments[$mask] as *const libc::sigset_t;
            // SAFETY: the caller's promise.
            unsafe { wait(Function::$name, mask, arguments) }
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
