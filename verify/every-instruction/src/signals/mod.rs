//! Interrupts the forms that are atomic against signal handlers, by signals that arrive at each of
//! their instructions.
//!
//! [`rows`] finds the sequences of the running program by its table. `stepper` stops at one
//! instruction and lets signals arrive there, whose handlers ([`deliver`]) run a scenario's
//! interferences. `interruption` defines the signals that arrive, and which outcomes are correct.
//! [`checker`] runs it all, and [`registry`] holds the scenarios. [`nested`] interrupts deliveries,
//! [`faults`] those of faults, [`jumps`] leaves them, and [`ends`] interrupts the code that begins
//! and ends masks.

pub mod checker;
pub mod deliver;
pub mod ends;
pub mod faults;
mod findings;
mod interruption;
pub mod jumps;
pub mod nested;
pub mod registry;
pub mod rows;
pub(crate) mod stepper;

pub use findings::Findings;
