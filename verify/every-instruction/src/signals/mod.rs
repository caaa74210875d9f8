//! Interrupts the forms that are atomic against signal handlers, by signals that arrive at each of
//! their instructions.
//!
//! [`rows`] finds the sequences of the running program by its table. `stepper` stops at one
//! instruction and lets signals arrive there, whose handlers ([`deliver`]) do what a scenario asks
//! for. `interruption` says what arrives, and which outcomes are right. [`checker`] runs it all,
//! and [`registry`] holds the scenarios. [`nested`] interrupts deliveries, [`faults`] those of
//! faults, [`jumps`] leaves them, and [`ends`] interrupts what begins and ends masks.

pub mod checker;
pub mod deliver;
pub mod ends;
pub mod faults;
mod interruption;
pub mod jumps;
pub mod nested;
pub mod registry;
pub mod rows;
pub(crate) mod stepper;
