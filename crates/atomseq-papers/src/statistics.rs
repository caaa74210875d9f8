//! The counts in B91's tables. Counting is off by default; a count then costs a load and a branch,
//! at places that make a system call anyway.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static ON: AtomicBool = AtomicBool::new(false);

/// The number of `await`s of [`reservation`](crate::reservation).
pub(crate) static WAITS: Count = Count::new();

/// The number of test-and-sets emulated for [`emulation::Trap`](crate::emulation::Trap).
pub(crate) static TRAPS: Count = Count::new();

/// The number of test-and-sets done by the kernel for [`emulation::Call`](crate::emulation::Call).
pub(crate) static CALLS: Count = Count::new();

/// The rollforwards of each scheme of [`rollforward`](crate::rollforward), in the order of its
/// `Kind`.
pub(crate) static ROLLFORWARDS: [Count; 4] = [const { Count::new() }; 4];

/// How often a thread executed the trap that a rollforward of another thread had written.
pub(crate) static TRAPS_HIT: Count = Count::new();

/// Turns counting on or off for the whole process. Async-signal-safe; costs one store.
pub fn count(on: bool) {
    // Relaxed: the switch orders no other data.
    ON.store(on, Ordering::Relaxed);
}

/// Returns how often threads yielded the processor in an `await` of
/// [`reservation`](crate::reservation) (B91, section 2.2, figure 1). `None` while counting is off.
pub fn waits() -> Option<u64> {
    WAITS.get()
}

/// Returns how many sequences of a scheme were rolled forward; `None` while counting is off.
pub fn rollforwards(kind: crate::rollforward::Kind) -> Option<u64> {
    ROLLFORWARDS[kind as usize].get()
}

/// Returns how often a thread executed the trap that a rollforward of another thread had written
/// over a landmark (M94 2.2.1); `None` while counting is off.
pub fn traps_hit() -> Option<u64> {
    TRAPS_HIT.get()
}

/// A count for the whole process.
pub(crate) struct Count(AtomicU64);

impl Count {
    const fn new() -> Count {
        Count(AtomicU64::new(0))
    }

    /// Increments the count if counting is on. Async-signal-safe.
    #[inline]
    pub(crate) fn add(&self) {
        // Relaxed, here and below: the numbers order no other data.
        if ON.load(Ordering::Relaxed) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the count if counting is on.
    pub(crate) fn get(&self) -> Option<u64> {
        ON.load(Ordering::Relaxed)
            .then(|| self.0.load(Ordering::Relaxed))
    }
}
