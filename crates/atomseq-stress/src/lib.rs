//! The stress engine of atomseq: threads use a structure while they are moved between CPUs,
//! interrupted by signals, fenced and forked, and invariants are checked all the time.
//!
//! `atomseq torture` runs it on a user's machine; the crates in `verify/` run it as tests. It is
//! published only because the command depends on it: its interface may change in any release.
//!
//! [`engine`] runs the threads and watches them. [`targets`] has what they run: a structure, its
//! operations and its invariants. [`system`] has the system calls. [`child`], [`memory`] and
//! [`patience`] also serve the rest of the command.

#[cfg(target_os = "linux")]
pub mod child;
pub mod engine;
pub mod memory;
pub mod needs;
pub mod patience;
pub mod system;
pub mod targets;
