//! Tools for tests of the emulated instruction: faults that are noted, and memory of every kind.
#![cfg(target_os = "linux")]

pub mod faults;
pub mod memory;
