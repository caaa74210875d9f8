//! What the language has, used: what `tests/ui` of verify-macros breaks is legal here. Each file
//! stands for a crate of its own, and runs what it declares.
//!
//! The portable build has the same compiler: once is enough.
#![cfg(atomseq_sections)]
// These count for a whole crate only.
#![deny(rust_2024_compatibility, future_incompatible)]

mod cpu;
mod dollar_crate;
mod forms;
mod fragments;
mod memory;
mod names;
mod places;
mod plain;
mod words;
