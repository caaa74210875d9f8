//! The run-time side of [`sequence!`](crate::sequence!): what the compiled forms share.
//!
//! [`model`] runs a sequence's steps one at a time, for a checker.

#[cfg(atomseq_sections)]
mod index;
#[cfg(atomseq_sections)]
pub(crate) mod inspect;
pub mod model;
#[cfg(atomseq_sections)]
pub(crate) mod table;

use std::sync::atomic::Ordering;

use crate::generated::{RESTART_LIMIT, RESTARTED};

/// The gate is closed, or this thread cannot run sections, or it was interrupted more often in a
/// row than the [restart limit](set_restart_limit). Nothing has happened: take the slow path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the gate is closed; take the slow path")
    }
}

impl std::error::Error for Closed {}

/// How many interruptions in a row an operation takes before it goes to the slow path, unless
/// [`set_restart_limit`] said otherwise.
pub const DEFAULT_RESTART_LIMIT: usize = 64;

/// Sets for the whole process how many restarts in a row a sequence makes before its operation
/// takes the slow path. At 0 the first interruption leads there.
///
/// Restarts in a row are rare: a time slice holds millions of sequences. They happen under a
/// debugger that steps through a section, which would never end without a limit.
pub fn set_restart_limit(restarts: usize) {
    // Relaxed: a number on its own; a sequence that still sees the old one is as correct.
    RESTART_LIMIT.store(restarts, Ordering::Relaxed);
}

/// How many sequences of the form `on_cpu` began again because the kernel had aborted them, in the
/// whole process so far: B91 table 3's "Restarts". Those that signal handlers restart are in
/// [`signal::statistics`](crate::signal::statistics).
///
/// Async-signal-safe. Counted where a sequence begins again, so the others pay nothing.
pub fn restarts() -> u64 {
    // Relaxed: a number on its own.
    RESTARTED.load(Ordering::Relaxed)
}
