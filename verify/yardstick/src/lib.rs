//! The best assembly we can write by hand for a counter and a stack, to hold the emitted code against.
//!
//! It knows what a compiler of sequences cannot assume: slots at a power of two from each other, the rest of a stack's
//! part at fixed distances, and how to tell the outcomes apart without a register of its own. Everything else is the
//! same: one store to arm, the number of the CPU, the gate, one commit. There is no slow path: who finds the gate closed
//! is told so.

#![cfg(all(target_os = "linux", target_arch = "x86_64", not(atomseq_portable)))]

pub mod counter;
pub mod memory;
pub mod stack;
