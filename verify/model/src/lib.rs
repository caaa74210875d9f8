//! Checks atomseq's sequences in their model form, by exhausting every state within bounds.
//!
//! | module | |
//! |---|---|
//! | [`structure`] | what a checker needs of a structure: memory, calls, and their meaning |
//! | [`checker`] | exhausts the states of a structure: every abort of every call, everywhere |
//! | [`execution`] | steps and judges one call; the extent and findings of an exploration |
//! | [`layout`] | the address layout of a model's memory |
//! | [`structures`] | the structures of `percpu`, `local` and `mutex` in these terms |
//! | [`dcas`] | OS-assisted DCAS, with interruptions, fences and revocation as steps |
//! | [`shadow`] | stacks in arrays, likewise |
//! | [`mod@controls`] | models of the library's own sources under loom and shuttle, in `tests/` |
//! | [`broken`] | sequences that are wrong, each in its own way, and must be detected |
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
