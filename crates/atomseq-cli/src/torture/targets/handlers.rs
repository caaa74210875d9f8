//! Handlers: those of other libraries, which use every structure wherever they interrupt it, and
//! each other.

use std::sync::Arc;

use crate::torture::harness::{Interruptions, STEPS, Target};
use crate::torture::subjects::bundle::Bundle;
use crate::torture::subjects::conserving::Mood;

/// The target.
pub const TARGET: Target = Target {
    name: "handlers",
    about: "timer signals, whose handlers use all per-CPU structures in the middle of the threads' operations",
    round: |setting| {
        let mood = Mood::any(&mut setting.rng);
        Arc::new(Bundle::new(setting, mood))
    },
    steps: STEPS,
    interruptions: Interruptions::Timed,
    counts: "",
};
