//! Tools for tests of the emulated instruction: faults that are noted, and memory of every kind.
#![cfg(target_os = "linux")]

pub mod faults;
#[cfg(atomseq_sections)]
pub mod instruction;
pub mod memory;
