//! Tools for tests of signal handlers. Each test gets a process of its own: handlers are the process's, and some
//! tests end it.
#![cfg(unix)]

pub mod fresh;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(atomseq_portable)
))]
pub mod interrupt;
pub mod log;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(atomseq_portable)
))]
pub mod sequences;
pub mod signals;
