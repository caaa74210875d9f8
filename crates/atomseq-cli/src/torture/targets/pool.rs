//! Pool: objects got, filled, checked and put back; over a source that runs out now and then.

use std::sync::Arc;

use crate::torture::harness::lane::MAX_HELD;
use crate::torture::harness::{Interruptions, Round, STEPS, Setting, Target};
use crate::torture::subjects::pooled::Pooled;

/// The target.
pub const TARGET: Target = Target {
    name: "pool",
    about: "no object is lost, handed to two threads or changed while held; the source gets back what it gave",
    round,
    steps: STEPS,
    interruptions: Interruptions::Sent,
    counts: "",
};

fn round(setting: &mut Setting) -> Arc<dyn Round> {
    let capacity = 1 << setting.rng.u32(0..=6);
    // Sometimes fewer objects than hands.
    let objects = setting.rng.usize(1..setting.lanes * MAX_HELD * 2);
    Arc::new(Pooled::new(capacity, objects))
}
