//! The run-time side of [`sequence!`](crate::sequence!): what the compiled forms share.
//!
//! [`model`] runs a sequence's steps one at a time, for a checker. `table` finds the sequence
//! around a program counter.

#[cfg(atomseq_sections)]
mod index;
#[cfg(atomseq_sections)]
pub(crate) mod inspect;
pub mod model;
#[cfg(atomseq_sections)]
pub(crate) mod table;

use std::sync::atomic::Ordering;

use crate::generated::{RESTART_LIMIT, RESTARTED};

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
