//! Faults that the torture injects into itself, to prove that it can fail.

use clap::ValueEnum;

/// A fault of the torture's own making.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sabotage {
    /// Forgets one value or addition
    Lose,
    /// Counts one value or addition twice
    Duplicate,
    /// Lets one thread stop for good
    Hang,
    /// Lets one thread panic
    Panic,
    /// Lets one thread abort the process
    Crash,
    /// Puts a lock without protection among those of the target mutex
    Intrude,
    /// Leaves out the notifications of a condition in the target mutex
    Oversleep,
}

impl Sabotage {
    /// Is it a fault of locks, which only the target `mutex` has?
    pub fn needs_locks(self) -> bool {
        matches!(self, Sabotage::Intrude | Sabotage::Oversleep)
    }
}
