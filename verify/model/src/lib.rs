//! Checks atomseq's sequences in their model form, as far as exhausting every state can.
//!
//! | module | |
//! |---|---|
//! | [`structure`] | what a checker must know of a structure: its memory, its calls, what they mean |
//! | [`checker`] | exhausts the states of a structure: every abort of every call, everywhere |
//! | [`execution`] | one call, stepped and judged; what a checker explored, and what it found wrong |
//! | [`layout`] | where things lie in the memory of a model |
//! | [`structures`] | the structures of `atomseq::percpu` in these terms |
//! | [`dcas`] | OS-assisted DCAS, with interruptions, fences and revocation as steps |
//! | [`shadow`] | stacks in arrays, likewise |
//! | [`mod@controls`] | models of the library's own sources under loom and shuttle, in `tests/` |
//! | [`broken`] | sequences that are wrong, each in its own way, and must be found out |
//!
//! The meaning of each call is written down a second time here, as plain Rust on lists, and shares
//! nothing with the sequences.

pub mod broken;
pub mod checker;
pub mod controls;
pub mod dcas;
pub mod execution;
pub mod layout;
pub mod shadow;
pub mod structure;
pub mod structures;
