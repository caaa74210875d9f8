//! The functions that set the mask or return it.

use std::sync::atomic::Ordering::Relaxed;

use crate::action::{set_of, to_set};
use crate::arch;
use crate::real::{Function, function};
use crate::thread::{INTERNAL, Thread, UNBLOCKABLE, bit};

/// Returns whether `sigprocmask` can change the mask so.
fn is_known(how: i32) -> bool {
    (libc::SIG_BLOCK..=libc::SIG_SETMASK).contains(&how)
}

/// Changes the mask as `sigprocmask` does, and returns the old one.
pub fn change(how: i32, set: u64) -> u64 {
    let mut old = 0;
    // SAFETY: `old` is eight bytes.
    unsafe { change_into(how, set, &raw mut old) };
    old
}

/// The same, but stores the old mask before a handler can run.
///
/// # Safety
///
/// `old` is null, or eight bytes can be written there, which need not be aligned.
pub unsafe fn change_into(how: i32, set: u64, old: *mut u64) {
    let set = set & !UNBLOCKABLE;
    let (keep, add) = match how {
        libc::SIG_BLOCK => (!0, set),
        libc::SIG_UNBLOCK => (!set, 0),
        _ => (0, set),
    };
    // SAFETY: the caller's promise.
    unsafe {
        match Thread::current() {
            Some(_) => arch::change(keep, add, old),
            None => arch::change_mask_into(how, set, old),
        }
    };
}

/// `pthread_sigmask` for what assembly leaves: a thread's first call, no new mask, an unknown
/// change, or nothing is lazy.
pub unsafe extern "C-unwind" fn pthread_sigmask_otherwise(
    how: i32,
    new: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> i32 {
    let Some(thread) = Thread::current() else {
        // SAFETY: the C library's function of this type, and the caller's promise.
        return unsafe {
            let function = function!(
                Function::pthread_sigmask,
                fn(i32, *const libc::sigset_t, *mut libc::sigset_t) -> i32
            );
            function(how, new, old)
        };
    };
    if new.is_null() {
        if !old.is_null() {
            // SAFETY: the caller's promise. As many bytes as the kernel writes.
            unsafe { *old.cast::<u64>() = thread.program.load(Relaxed) };
        }
        return 0;
    }
    if !is_known(how) {
        // The way to ask whether an address is readable: the kernel answers.
        return arch::refused_mask(how, new as usize);
    }
    // SAFETY: the caller's promise. As many bytes as the kernel writes.
    unsafe { change_into(how, set_of(new) & !INTERNAL, old.cast()) };
    0
}

/// As [`pthread_sigmask_otherwise`], for `sigprocmask`.
pub unsafe extern "C-unwind" fn sigprocmask_otherwise(
    how: i32,
    new: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> i32 {
    // SAFETY: the caller's promise.
    match unsafe { pthread_sigmask_otherwise(how, new, old) } {
        0 => 0,
        error => fail(error),
    }
}

/// Returns the program's mask.
pub extern "C-unwind" fn now() -> u64 {
    match Thread::current() {
        Some(thread) => thread.program.load(Relaxed),
        None => arch::mask(),
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
    unsafe { change_into(how, set, old) };
    if is_valid { 0 } else { fail(libc::EFAULT) }
}

/// Sets the error number, and returns -1.
#[cold]
#[inline(never)]
pub fn fail(error: i32) -> i32 {
    set_error(error);
    -1
}

/// Sets the error number.
pub fn set_error(error: i32) {
    // SAFETY: the address of this thread's error number.
    unsafe { *libc::__errno_location() = error };
}

/// Returns the error number.
pub fn error() -> i32 {
    // SAFETY: the address of this thread's error number.
    unsafe { *libc::__errno_location() }
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
    change(libc::SIG_BLOCK, signal);
    0
}

#[unsafe(no_mangle)]
extern "C-unwind" fn sigrelse(signal: i32) -> i32 {
    let Some(signal) = signal_bit(signal) else {
        return -1;
    };
    change(libc::SIG_UNBLOCK, signal);
    0
}

/// What the functions with a mask of 32 bits can set.
const OLD: u64 = u32::MAX as u64 & !(UNBLOCKABLE | INTERNAL);

#[unsafe(no_mangle)]
extern "C-unwind" fn sigblock(mask: i32) -> i32 {
    let set = u64::from(mask as u32) & OLD;
    change(libc::SIG_BLOCK, set) as i32
}

#[unsafe(no_mangle)]
extern "C-unwind" fn sigsetmask(mask: i32) -> i32 {
    let set = u64::from(mask as u32) & OLD;
    change(libc::SIG_SETMASK, set) as i32
}

#[unsafe(no_mangle)]
extern "C-unwind" fn siggetmask() -> i32 {
    now() as i32
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
    let set = to_set(now() & !signal);
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
