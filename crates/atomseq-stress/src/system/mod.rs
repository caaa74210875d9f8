//! What the engine asks of the operating system: to move threads, interrupt them and fork. On other
//! systems than Linux there are no per-CPU sequences to disturb, and threads only preempt each
//! other.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::*;
#[cfg(target_os = "linux")]
pub use linux::*;

use crate::engine::invariant::Checked;

/// Which of the two signals: each has its own handler lane, and may interrupt the other's handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Sent by the disturber.
    Sent,
    /// Sent by a timer.
    Timer,
}

/// How a forked child ended.
#[derive(Debug)]
pub enum Ending {
    /// It completed the check, with this result.
    Checked(Checked),
    /// It had no result: it panicked, or a signal ended it.
    Died,
    /// It did not exit and was killed.
    Hung,
}
