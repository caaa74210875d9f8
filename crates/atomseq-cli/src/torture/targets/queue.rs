//! Queue: values and boxes, pushed, popped, stolen and drained, while the queue grows.

use std::sync::Arc;

use atomseq::percpu::Queue;

use crate::torture::harness::{Interruptions, Round, STEPS, Setting, Target};
use crate::torture::subjects::conserving::Conserving;
use crate::torture::subjects::element::Owned;

/// The target.
pub const TARGET: Target = Target {
    name: "queue",
    about: "every value comes out once, oldest first on each CPU, while the queue grows; boxes are dropped once",
    round,
    steps: STEPS,
    interruptions: Interruptions::Sent,
    counts: "",
};

fn round(setting: &mut Setting) -> Arc<dyn Round> {
    match setting.rng.u32(..3) {
        0 => Arc::new(Conserving::new(Queue::<Box<Owned>>::new(), setting)),
        _ => Arc::new(Conserving::new(Queue::<u64>::new(), setting)),
    }
}
