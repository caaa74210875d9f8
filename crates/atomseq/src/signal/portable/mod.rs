//! Signals without protected sequences: other unixes, Linux with `--cfg atomseq_portable`, and
//! systems without signals.
//!
//! Where there are signals, they are blocked while a sequence runs, so a handler never observes one
//! half done. No sequence is restarted or rolled forward, and there are no clones.

use std::time::Duration;

#[cfg(not(unix))]
mod absent;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub use absent::*;
#[cfg(unix)]
pub use unix::*;

/// Returns the place in the sequence that corresponds to a place in its clone. There are no clones
/// in this build, so it returns `pc`.
pub fn original_pc(pc: usize) -> usize {
    pc
}

/// Abandons the rollforward under way on this thread. There are none in this build, so it returns
/// `false`.
pub fn abandon_rollforward() -> bool {
    false
}

/// Sets how long a rollforward may keep faulting. There are none in this build, so it does nothing.
pub fn set_rollforward_limit(_limit: Duration) {}
