//! The emitters, tried without an AArch64 machine.
//!
//! | file | what it checks |
//! |---|---|
//! | `golden` | the listings of a few sequences of the library are what they were |
//! | `results` | no instruction overwrites a result on its way through the commit |
//! | `own` | without assembly, forms against handlers load by plain accesses |
//! | `inspect` | sections in the object file are as the kernel and a restart need them |
//! | `inspect_signal` | rows and clones in the object file are as a handler needs them |
//! | `run` | under qemu, sequences do what the oracle says |
//! | `run_signal` | under qemu, interrupted at each instruction, they still do |
//! | `run_schemes` | the same inside the schemes of M94, rolled forward as each of them is |
//!
//! `library` collects sequences, `assembly` writes them as functions for GNU as, `tools` calls the
//! cross toolchain. The drivers in C call the functions under qemu, on memory at fixed addresses
//! and a `struct rseq` of their own.
//!
//! Needs binutils-aarch64-linux-gnu, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user.
//! Without them the tests are skipped, and say so. With `ATOMSEQ_REQUIRE_ALL=1` they fail instead.
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
mod run_schemes;
mod run_signal;
mod tools;
