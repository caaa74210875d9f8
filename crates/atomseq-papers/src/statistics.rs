//! Counts of what B91's tables count. They are off at first; then a count costs a load and a
//! branch, in places that make a system call anyway.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static ON: AtomicBool = AtomicBool::new(false);

/// `await`s of [`reservation`](crate::reservation).
pub(crate) static WAITS: Count = Count::new();

/// Test-and-sets that [`emulation::Trap`](crate::emulation::Trap) had emulated.
pub(crate) static TRAPS: Count = Count::new();

/// Test-and-sets that [`emulation::Call`](crate::emulation::Call) had the kernel do.
pub(crate) static CALLS: Count = Count::new();

/// Turns counting on or off for the whole process.
pub fn count(on: bool) {
    // Relaxed: a switch on its own.
    ON.store(on, Ordering::Relaxed);
}

/// How often a thread gave its processor away in an `await` of [`reservation`](crate::reservation)
/// (B91 2.2, figure 1); `None` while counting is off.
pub fn waits() -> Option<u64> {
    WAITS.get()
}

/// A count for the whole process.
pub(crate) struct Count(AtomicU64);

impl Count {
    const fn new() -> Count {
        Count(AtomicU64::new(0))
    }

    /// One more, if counting is on. Async-signal-safe.
    #[inline]
    pub(crate) fn add(&self) {
        // Relaxed, here and below: numbers on their own.
        if ON.load(Ordering::Relaxed) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The count, if counting is on.
    pub(crate) fn get(&self) -> Option<u64> {
        ON.load(Ordering::Relaxed)
            .then(|| self.0.load(Ordering::Relaxed))
    }
}
