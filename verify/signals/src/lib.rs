//! Tools for tests of signal handlers. Each test gets a process of its own: handlers are the
//! process's, and some tests end it.
#![cfg(unix)]

pub mod fresh;
#[cfg(atomseq_sections)]
pub mod interrupt;
#[cfg(atomseq_sections)]
pub mod jump;
pub mod libraries;
pub mod log;
#[cfg(target_os = "linux")]
pub mod sandbox;
#[cfg(atomseq_sections)]
pub mod sequences;
pub mod signals;
