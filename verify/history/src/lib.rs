//! Concurrent histories of atomseq's structures, and whether some order of their calls explains
//! them.
//!
//! [`model`] is what a structure is to one thread alone, [`models`] has one of each. [`clock`] says
//! what of the order in time is recorded, [`record`] keeps it, [`checker`] judges; [`brute`] does
//! the same in the simplest way, to compare. [`subjects`] has the structures, [`crew`] the threads
//! that use them while [`interrupt`] stops threads inside operations: by timers, and by breakpoints
//! at single instructions ([`stops`]); [`nested`] does that on one thread, and `ended` ends threads
//! there, also on ways that only interruptions lead to. [`alone`] lets one trial at a time run, and
//! ends the process when none gets on any more ([`patience`]); [`said`] and [`whereabouts`] are
//! about what is told then. [`broken`] holds structures that are wrong on purpose.
#![cfg(target_os = "linux")]

pub mod alone;
pub mod broken;
pub mod brute;
pub mod checker;
pub mod clock;
pub mod crew;
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
pub mod ended;
pub mod history;
pub mod interrupt;
pub mod model;
pub mod models;
pub mod nested;
pub mod patience;
pub mod record;
pub mod said;
pub mod stops;
pub mod subjects;
pub mod whereabouts;
