//! What the torture asks of the operating system: to move threads, to interrupt them, to fork.
//! Elsewhere than on Linux the structures have no sections that could be disturbed, and only the
//! disturbances that every system knows remain.

#[cfg(target_os = "linux")]
mod child;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod threads;

#[cfg(target_os = "linux")]
pub use {
    child::{Ending, fork},
    linux::{Timer, fence, install_handlers, interrupt, move_thread, on_crash, own_number},
    threads::{run_on_c_thread, when_thread_ends},
};

#[cfg(not(target_os = "linux"))]
pub use elsewhere::*;

/// Which of the two signals: each has its own handler lane, and may interrupt the other's handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Sent by the tormentor.
    Sent,
    /// Sent by a timer.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "only Linux has the timers")
    )]
    Timer,
}
