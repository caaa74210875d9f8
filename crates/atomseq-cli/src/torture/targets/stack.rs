//! Stack: values and boxes, pushed, popped, stolen and drained.

use std::sync::Arc;

use atomseq::percpu::Stack;

use crate::torture::harness::{Interruptions, Round, STEPS, Setting, Target};
use crate::torture::subjects::conserving::Conserving;
use crate::torture::subjects::element::Owned;

/// The target.
pub const TARGET: Target = Target {
    name: "stack",
    about: "every value comes out once, and what is left on a CPU leaves it newest first; boxes are dropped once",
    round,
    steps: STEPS,
    interruptions: Interruptions::Sent,
    counts: "",
};

fn round(setting: &mut Setting) -> Arc<dyn Round> {
    // From always full to never full.
    let capacity = 1 << setting.rng.u32(0..=10);
    match setting.rng.u32(..3) {
        0 => Arc::new(Conserving::new(
            Stack::<Box<Owned>>::with_capacity_per_cpu(capacity),
            setting,
        )),
        _ => Arc::new(Conserving::new(
            Stack::<u64>::with_capacity_per_cpu(capacity),
            setting,
        )),
    }
}
