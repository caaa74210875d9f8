//! The mechanisms for test-and-set, a file a scope.

mod interlocked;
mod on_cpu;
mod rehoming;
mod signals;

pub use interlocked::Interlocked;
pub use on_cpu::OnCpu;
pub use rehoming::BiasedFlag;
pub use signals::{Masked, Restarting, Rolling};

pub(super) use signals::SEQUENCES;
