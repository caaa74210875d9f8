//! Tools for tests of the emulated instruction: faults that are noted, and memory of every kind.
#![cfg(target_os = "linux")]

pub mod faults;
#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(atomseq_portable)
))]
pub mod instruction;
pub mod memory;
