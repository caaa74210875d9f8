//! A global allocator made of per-CPU pools.
//!
//! Nothing in `percpu` allocates through the global allocator, takes a lock of the standard library
//! or uses a lazily initialised thread-local. So an allocator can be built on it. [`pools`] is that
//! allocator, [`shelves`] the source from which its pools are refilled. `tests/allocator.rs` checks
//! the claim: it runs on this allocator and detects every allocation that atomseq makes itself.

pub mod pools;
pub mod shelves;
