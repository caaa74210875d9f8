//! The emitters. A few listings are kept; and the AArch64 emitter is tried without an AArch64
//! machine: its lines are assembled by GNU as, the object file is inspected, and the code runs
//! under qemu's user emulation on a `struct rseq` of our own, against what the sequences' syntax
//! says; the forms against signal handlers are interrupted at each of their instructions.
//!
//! Needs binutils-aarch64-linux-gnu, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user.
//! Without them the tests fail, unless `ATOMSEQ_SKIP_AARCH64=1` says that they may not run.
//!
//! The portable build has the same compiler: once is enough.
#![cfg(atomseq_sections)]

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
