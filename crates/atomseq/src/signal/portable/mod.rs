//! Signals without protected sequences: other unixes, Linux with `--cfg atomseq_portable`, and
//! systems without signals.
//!
//! A handler never finds a sequence half done: where there are signals, they are blocked while a
//! sequence runs. So no sequence is restarted or run to its end, and there are no clones.

use std::time::Duration;

#[cfg(not(unix))]
mod absent;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub use absent::*;
#[cfg(unix)]
pub use unix::*;

use super::audit::Audit;

/// Where in the original a place in a clone is. There are no clones in this build: any place is
/// where it is.
pub fn original_pc(pc: usize) -> usize {
    pc
}

/// Gives up the rollforward under way on this thread. There are none in this build.
pub fn abandon_rollforward() -> bool {
    false
}

/// Sets how long a rollforward may keep faulting. There are none in this build.
pub fn set_rollforward_limit(_limit: Duration) {}

/// Nothing that it finds can be repaired.
pub fn repair() -> Audit {
    audit()
}
