//! The best assembly we can write by hand for a counter and a stack, to hold the emitted code
//! against.
//!
//! It may use what a compiler of sequences cannot know, such as that a counter's parts are 128
//! bytes apart. It offers the same: capacities chosen at run time, a part for each CPU, one store
//! to arm, the number of the CPU, the gate, one commit. There is no slow path: who finds the gate
//! closed is told so.

#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

pub mod counter;
pub mod memory;
pub mod stack;
