//! Prose: how atomseq works, where it ends, how to build on it, and what it costs.
//!
//! * [`patterns`]: builds a per-CPU structure from nothing with [`sequence!`](crate::sequence!).
//! * [`internals`]: how a sequence becomes machine code, and what happens when it is interrupted.
//! * [`limitations`]: what atomseq does not do, and what not to do to it.
//! * [`performance`]: when a per-CPU structure is the right choice, and when another one is.
//! * [`porting`]: from `parking_lot`, `crossbeam` and `std`.
//! * [`tools`]: Miri, sanitizers, loom, valgrind, qemu: what to build with; deployment.

pub mod internals;
pub mod limitations;
pub mod patterns;
pub mod performance;
pub mod porting;
pub mod tools;
