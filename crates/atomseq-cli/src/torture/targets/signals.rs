//! Signals: a thread and its handlers change the same words, under as many signals as the machine
//! can send.

use std::sync::Arc;

use crate::torture::harness::{Interruptions, STEPS, Target};
use crate::torture::subjects::interrupted::Interrupted;

/// The target.
pub const TARGET: Target = Target {
    name: "signals",
    about: "a storm of signals to threads that share words with their handlers; no handler sees half an operation",
    round: |setting| Arc::new(Interrupted::new(setting)),
    steps: 16 * STEPS,
    interruptions: Interruptions::Storm,
    counts: "by handlers",
};
