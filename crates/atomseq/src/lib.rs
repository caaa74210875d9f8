//! Mutual exclusion that costs nothing until something interrupts you.

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

pub mod status;

pub use status::status;

/// What the crates in `verify/` reach into; no part of the interface.
#[doc(hidden)]
pub mod internals {
    pub use crate::platform::*;
}
