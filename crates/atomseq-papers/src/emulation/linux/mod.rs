//! Emulation on Linux.

mod address;
pub mod call;
pub mod trap;
