//! Interrupts sequences at each of their instructions and compares the outcome with uninterrupted
//! runs.
//!
//! `verify_support::code` finds the sequences of the running program by the descriptors that the
//! kernel itself uses, and plants a breakpoint on one instruction. The signal that it raises makes
//! the kernel abort the section, exactly as a preemption there would. [`scenario`] defines
//! operations, their interferences, and the correct outcomes; [`checker`] runs them at every
//! instruction; [`registry`] holds a scenario for each operation of the library. [`signals`] does
//! the same for the forms that are atomic against signal handlers.
//!
//! For x86-64 Linux with sections only; elsewhere the crate is empty and its tests say so.

#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

pub mod checker;
pub mod gate;
pub mod reach;
pub mod registry;
pub mod scenario;
pub mod signals;
pub mod slow_path;
