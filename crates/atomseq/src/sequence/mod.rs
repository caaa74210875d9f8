//! The run-time side of [`sequence!`](crate::sequence!): what the compiled forms share.
//!
//! [`model`] runs a sequence's steps one at a time, for a checker. `gated` has the memory accesses
//! of the `gated` form, and `check` the bounds of constants in instructions. `table` finds the
//! sequence around a program counter.

#[doc(hidden)]
pub mod check;
#[doc(hidden)]
pub mod gated;
#[cfg(atomseq_sections)]
mod index;
#[cfg(atomseq_sections)]
#[doc(hidden)]
pub mod inspect;
pub mod model;
#[cfg(atomseq_sections)]
#[doc(hidden)]
pub mod table;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The fast path of a sequence was not taken, and nothing changed: the caller should take the slow
/// path.
///
/// The gate is closed, or this thread cannot run sections, or the attempt was aborted more often in
/// a row than the [restart limit](set_restart_limit) allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the gate is closed; take the slow path")
    }
}

impl std::error::Error for Closed {}

/// The maximum number of restarts in a row before an operation takes the slow path, unless
/// [`set_restart_limit`] has changed it.
pub const DEFAULT_RESTART_LIMIT: usize = 64;

static RESTART_LIMIT: AtomicUsize = AtomicUsize::new(DEFAULT_RESTART_LIMIT);

/// Sets the maximum number of restarts in a row before an operation takes the slow path, for the
/// whole process. At 0, the first abort leads to the slow path.
///
/// Restarts in a row are rare, because a time slice lasts for millions of sequences. A debugger
/// that steps through a section causes them, and without a limit the section would never complete.
///
/// Wait-free: one atomic store. Async-signal-safe.
pub fn set_restart_limit(restarts: usize) {
    // Relaxed: an independent number. A sequence that still reads the old limit is correct.
    RESTART_LIMIT.store(restarts, Ordering::Relaxed);
}

static RESTARTED: AtomicU64 = AtomicU64::new(0);

/// Returns how many attempts of `on_cpu` forms the kernel has aborted in this process so far. This
/// is "Restarts" in table 3 of B91. [`signal::statistics`](crate::signal::statistics) has the
/// restarts by signal handlers.
///
/// Wait-free: one atomic load. Async-signal-safe. Only a restart counts, so uninterrupted sequences
/// pay nothing.
pub fn restarts() -> u64 {
    // Relaxed: an independent number.
    RESTARTED.load(Ordering::Relaxed)
}

/// The restarts of one operation.
#[doc(hidden)]
#[derive(Debug)]
pub struct Restarts(usize);

impl Restarts {
    #[inline(always)]
    pub const fn none() -> Restarts {
        Restarts(0)
    }

    /// Counts a restart. Returns `false` if the limit is exceeded.
    #[cold]
    #[inline(never)]
    pub fn again(&mut self) -> bool {
        self.0 += 1;
        // Relaxed: an independent number.
        RESTARTED.fetch_add(1, Ordering::Relaxed);
        // Relaxed: an independent number, see `set_restart_limit`.
        self.0 <= RESTART_LIMIT.load(Ordering::Relaxed)
    }
}

/// Marks the branch that calls it as unlikely.
#[doc(hidden)]
#[cold]
#[inline(always)]
pub const fn unlikely() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_counted_and_bounded() {
        let (before, mut operation) = (restarts(), Restarts::none());
        let max = DEFAULT_RESTART_LIMIT;
        assert!((0..max).all(|_| operation.again()));
        assert!(!operation.again());
        assert!(restarts() > before + max as u64);
    }
}
