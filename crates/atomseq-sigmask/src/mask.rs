//! The functions that set the mask or return it.

use crate::action::{set_of, to_set};
use crate::arch;
use crate::thread::{INTERNAL, Thread, UNBLOCKABLE, bit};

/// Returns whether `sigprocmask` can change the mask so.
#[inline(always)]
fn is_known(how: i32) -> bool {
    (libc::SIG_BLOCK..=libc::SIG_SETMASK).contains(&how)
}

/// Changes the mask, and returns an error number. What is not short is in functions that are called
/// last, so that this one saves no registers.
#[inline(always)]
unsafe fn change(how: i32, new: *const libc::sigset_t, old: *mut libc::sigset_t) -> i32 {
    if !new.is_null()
        && is_known(how)
        && let Some(thread) = Thread::begun()
    {
        // SAFETY: the caller's promise. Before the old mask is written: they may be one.
        let set = unsafe { set_of(new) } & !(UNBLOCKABLE | INTERNAL);
        // SAFETY: the caller's promise. As many bytes as the kernel writes.
        return unsafe { thread.change_into(how, set, old.cast()) };
    }
    // SAFETY: the caller's promise.
    unsafe { change_otherwise(how, new, old) }
}

#[cold]
#[inline(never)]
unsafe fn change_otherwise(how: i32, new: *const libc::sigset_t, old: *mut libc::sigset_t) -> i32 {
    let thread = Thread::current();
    if new.is_null() {
        if !old.is_null() {
            // SAFETY: the caller's promise. As many bytes as the kernel writes.
            unsafe { *old.cast::<u64>() = thread.mask() };
        }
        return 0;
    }
    if !is_known(how) {
        // The way to ask whether an address is readable: the kernel answers.
        return arch::refused_mask(how, new as usize);
    }
    // SAFETY: the caller's promise. This time the thread has begun.
    unsafe { change(how, new, old) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_sigmask(
    how: i32,
    new: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { change(how, new, old) }
}

/// `sigprocmask`.
///
/// # Safety
///
/// As of `sigprocmask(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigprocmask(
    how: i32,
    new: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> i32 {
    // SAFETY: the caller's promise.
    match unsafe { change(how, new, old) } {
        0 => 0,
        error => fail(error),
    }
}

/// `rt_sigprocmask` by `syscall(3)`, which checks addresses, and leaves no signal out.
pub fn kernels_sigprocmask(how: i32, new: usize, old: usize) -> i32 {
    let (how, set) = match arch::read(new) {
        _ if new == 0 => (libc::SIG_BLOCK, 0),
        Some(set) if is_known(how) => (how, set & !UNBLOCKABLE),
        _ => return fail(arch::refused_mask(-1, new)),
    };
    // An address that is not writable fails the call, but the mask is changed. It may be that of
    // the new mask, which has been read.
    let is_valid = old == 0 || arch::is_writable(old);
    let old = (if is_valid { old } else { 0 }) as *mut u64;
    // SAFETY: null, or the kernel has just written these bytes.
    unsafe { Thread::current().change_into(how, set, old) };
    if is_valid { 0 } else { fail(libc::EFAULT) }
}

/// Sets the error number, and returns -1.
#[cold]
#[inline(never)]
pub fn fail(error: i32) -> i32 {
    // SAFETY: the address of this thread's error number.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// Returns a signal's bit, or nothing and sets the error number.
fn signal_bit(signal: i32) -> Option<u64> {
    if (1..65).contains(&signal) && signal != 32 && signal != 33 {
        return Some(bit(signal) & !UNBLOCKABLE);
    }
    fail(libc::EINVAL);
    None
}

#[unsafe(no_mangle)]
extern "C-unwind" fn sighold(signal: i32) -> i32 {
    let Some(signal) = signal_bit(signal) else {
        return -1;
    };
    Thread::current().change(libc::SIG_BLOCK, signal);
    0
}

#[unsafe(no_mangle)]
extern "C-unwind" fn sigrelse(signal: i32) -> i32 {
    let Some(signal) = signal_bit(signal) else {
        return -1;
    };
    Thread::current().change(libc::SIG_UNBLOCK, signal);
    0
}

/// What the functions with a mask of 32 bits can set.
const OLD: u64 = u32::MAX as u64 & !(UNBLOCKABLE | INTERNAL);

#[unsafe(no_mangle)]
extern "C-unwind" fn sigblock(mask: i32) -> i32 {
    let set = u64::from(mask as u32) & OLD;
    Thread::current().change(libc::SIG_BLOCK, set) as i32
}

#[unsafe(no_mangle)]
extern "C-unwind" fn sigsetmask(mask: i32) -> i32 {
    let set = u64::from(mask as u32) & OLD;
    Thread::current().change(libc::SIG_SETMASK, set) as i32
}

#[unsafe(no_mangle)]
extern "C-unwind" fn siggetmask() -> i32 {
    Thread::current().mask() as i32
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigpause(mask: i32) -> i32 {
    let set = to_set(u64::from(mask as u32));
    // SAFETY: a valid set.
    unsafe { crate::wait::sigsuspend(&set) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __xpg_sigpause(signal: i32) -> i32 {
    let Some(signal) = signal_bit(signal) else {
        return -1;
    };
    let set = to_set(Thread::current().mask() & !signal);
    // SAFETY: a valid set.
    unsafe { crate::wait::sigsuspend(&set) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __sigpause(value: i32, is_signal: i32) -> i32 {
    // SAFETY: numbers only.
    unsafe {
        match is_signal {
            0 => sigpause(value),
            _ => __xpg_sigpause(value),
        }
    }
}
