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
}
