//! The test-and-set mechanisms, one file per scope.

mod biased_flag;
mod interlocked;
mod on_cpu;
mod signals;

pub use biased_flag::BiasedFlag;
pub use interlocked::Interlocked;
pub use on_cpu::OnCpu;
pub use signals::{Masked, Restarting, Rolling};

#[cfg(feature = "unstable-internals")]
pub(super) use signals::SEQUENCES;
