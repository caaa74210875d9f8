//! Mutual exclusion that costs nothing until something interrupts you.

// Generated code names this crate from outside; inside, this makes the same name work.
extern crate self as atomseq;

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64",
    not(atomseq_portable)
))]
mod arch;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64",
    not(atomseq_portable)
))]
mod linux;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64",
    not(atomseq_portable)
))]
use linux as platform;

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64",
    not(atomseq_portable)
)))]
mod portable;
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64",
    not(atomseq_portable)
)))]
use portable as platform;

pub mod docs;
pub mod percpu;
pub mod sequence;
pub mod status;
mod sync;
mod word;

pub use atomseq_macros::sequence;
pub use sequence::set_restart_limit;
pub use status::status;
pub use word::Word;

/// What generated code and the crates in `verify/` reach into; no part of the interface.
#[doc(hidden)]
pub mod internals {
    pub use crate::percpu::SEQUENCES;
    pub use crate::platform::*;
}
