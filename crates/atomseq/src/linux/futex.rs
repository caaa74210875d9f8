//! Waiting for a word to change.

use crate::arch::syscall;
use core::ptr;
use core::sync::atomic::AtomicU32;
use core::time::Duration;

/// Sleeps while `word` holds `expected`. May return early, so the caller checks again. Returns
/// whether a wake-up ended the sleep.
pub fn wait(word: &AtomicU32, expected: u32) -> bool {
    wait_for(word, expected, ptr::null())
}

/// Sleeps as [`wait`] does, for at most a millisecond.
pub fn wait_briefly(word: &AtomicU32, expected: u32) -> bool {
    let millisecond = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    wait_for(word, expected, &millisecond)
}

/// Sleeps as [`wait`] does, for at most `limit`.
pub fn wait_at_most(word: &AtomicU32, expected: u32, limit: Duration) -> bool {
    let limit = libc::timespec {
        // Saturates at a time that exceeds any wait.
        tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    wait_for(word, expected, &limit)
}

fn wait_for(word: &AtomicU32, expected: u32, timeout: *const libc::timespec) -> bool {
    // SAFETY: the kernel reads one aligned word that the reference keeps alive, and the timeout
    // unless it is null.
    let result = unsafe {
        syscall(
            libc::SYS_futex,
            [
                word.as_ptr() as usize,
                (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize,
                expected as usize,
                timeout as usize,
                0,
                0,
            ],
        )
    };
    result == 0
}

/// Wakes one thread that sleeps on `word`. Returns whether there was one.
pub fn wake_one(word: &AtomicU32) -> bool {
    wake(word, 1) > 0
}

/// Wakes at most `max` threads that sleep on `word`.
pub fn wake_many(word: &AtomicU32, max: u32) {
    wake(word, max.min(i32::MAX as u32) as usize);
}

/// Wakes all threads that sleep on `word`. Returns how many there were.
pub fn wake_all(word: &AtomicU32) -> usize {
    // A refused call has woken none.
    usize::try_from(wake(word, i32::MAX as usize)).unwrap_or(0)
}

/// Wakes up to `threads` threads, at least one. Returns how many it woke, or a negative error
/// number.
fn wake(word: &AtomicU32, threads: usize) -> isize {
    // SAFETY: a wake-up uses the address as a key and accesses no memory.
    unsafe {
        syscall(
            libc::SYS_futex,
            [
                word.as_ptr() as usize,
                (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize,
                threads,
                0,
                0,
                0,
            ],
        )
    }
}
