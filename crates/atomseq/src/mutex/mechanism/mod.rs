//! The mechanisms for test-and-set, a file a scope.

mod interlocked;
mod signals;

pub use interlocked::Interlocked;
pub use signals::{Masked, Restarting, Rolling};

pub(super) use signals::SEQUENCES;
