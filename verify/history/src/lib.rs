//! Concurrent histories of atomseq's structures, and whether some order of their calls explains
//! them.
//!
//! [`structures`] has each structure with its model: what it is to one thread alone. [`history`]
//! says what of the order in time is recorded, [`record`] keeps it, [`checker`] judges. [`crew`]
//! has the threads that use structures while [`interrupt`] stops threads inside operations: by
//! timers, and by breakpoints at single instructions ([`stops`]), on several threads or on one; and
//! `ended` ends threads there, also on ways that only interruptions lead to. [`alone`] lets one
//! trial at a time run, and ends the process when none makes progress any more; [`reports`] writes
//! what is known then. [`broken`] holds structures that are wrong on purpose.
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
