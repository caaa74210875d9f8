//! The system's semaphore, which S92's last line is about; and the call that its first line is
//! about.

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Attempts, CAPACITY, Pair};

/// POSIX's semaphore: `put` gets it, `take` gives it back.
pub struct Posix(Box<UnsafeCell<libc::sem_t>>);

// SAFETY: a semaphore is for threads to share, and lies where it was made.
unsafe impl Sync for Posix {}

impl Default for Posix {
    fn default() -> Self {
        // SAFETY: numbers, for which zero is a value.
        let semaphore = unsafe { MaybeUninit::zeroed().assume_init() };
        let semaphore = Box::new(UnsafeCell::new(semaphore));
        // SAFETY: room for a semaphore; it fails only for values that are too large, and ones
        // shared by processes.
        unsafe { libc::sem_init(semaphore.get(), 0, CAPACITY as u32) };
        Self(semaphore)
    }
}

impl Pair for Posix {
    #[inline(always)]
    fn put(&self, _value: u64) -> Attempts {
        // SAFETY: the semaphore was made and lives.
        let got = unsafe { libc::sem_wait(self.0.get()) };
        Attempts(u64::from(got == 0))
    }

    #[inline(always)]
    fn take(&self) -> (u64, Attempts) {
        let mut permits = 0;
        // SAFETY: the semaphore was made and lives; room for a number.
        let given = unsafe {
            let given = libc::sem_post(self.0.get());
            libc::sem_getvalue(self.0.get(), &mut permits);
            given
        };
        (permits as u64, Attempts(u64::from(given == 0)))
    }
}

impl Drop for Posix {
    fn drop(&mut self) {
        // SAFETY: it is not borrowed, so no thread waits on it.
        unsafe { libc::sem_destroy(self.0.get()) };
    }
}

/// A procedure that does nothing, called. `take`, which is not timed, counts.
#[derive(Default)]
pub struct NullCall(AtomicU64);

impl Pair for NullCall {
    #[inline(always)]
    fn put(&self, value: u64) -> Attempts {
        null(value);
        Attempts(1)
    }

    #[inline(always)]
    fn take(&self) -> (u64, Attempts) {
        // Relaxed: one thread counts.
        let taken = self.0.fetch_add(1, Ordering::Relaxed);
        (taken % CAPACITY + 1, Attempts(1))
    }
}

#[inline(never)]
extern "C" fn null(value: u64) {
    black_box(value);
}
