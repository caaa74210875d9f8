//! Records concurrent histories of atomseq's structures and decides whether some order of their
//! calls explains them.
//!
//! [`structures`] pairs each structure with its model, the sequential specification. [`history`]
//! defines which order in time is recorded, [`record`] records it, [`checker`] decides. [`crew`]
//! runs the threads that use structures, while [`interrupt`] stops threads inside operations: by
//! timers, and by breakpoints at single instructions ([`stops`]), on several threads or on one.
//! `ended` ends threads there, also on ways that only interruptions lead to. [`alone`] lets one
//! trial at a time run, and ends the process when none makes progress; [`reports`] writes what is
//! known then. [`broken`] holds structures that are wrong on purpose.
#![cfg(target_os = "linux")]

pub mod alone;
pub mod broken;
pub mod checker;
pub mod crew;
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
pub mod ended;
pub mod history;
pub mod interrupt;
pub mod record;
pub mod reports;
pub mod stops;
pub mod structures;
