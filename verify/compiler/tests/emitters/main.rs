//! The emitters. A few listings are kept; and the AArch64 emitter is tried without an AArch64
//! machine: its lines are assembled by GNU as, the object file is inspected, and the code runs
//! under qemu's user emulation on a `struct rseq` of our own, against what the sequences' syntax
//! says; the forms against signal handlers are interrupted at each of their instructions.
//!
//! Needs binutils-aarch64-linux-gnu, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user.
//! Without them the tests are skipped, and say so. With `ATOMSEQ_REQUIRE_ALL=1` they fail instead.
//!
//! The portable build has the same compiler: once is enough.
#![cfg(atomseq_sections)]

#[path = "../../../../crates/atomseq-macros/src/compiler/mod.rs"]
#[allow(dead_code, missing_docs)]
#[rustfmt::skip] // of another edition
mod compiler;

mod assembly;
mod golden;
mod inspect;
mod inspect_signal;
mod library;
mod own;
mod results;
mod run;
mod run_signal;
mod tools;
