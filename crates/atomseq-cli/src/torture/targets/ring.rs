//! Ring: elements of one word, of several, of an odd size, and boxes; one by one and in batches.

use std::sync::Arc;

use atomseq::percpu::Ring;

use crate::torture::harness::{Interruptions, Round, STEPS, Setting, Target};
use crate::torture::subjects::conserving::Conserving;
use crate::torture::subjects::element::{Odd, Owned, Wide};

/// The target.
pub const TARGET: Target = Target {
    name: "ring",
    about: "elements of several sizes, one by one and in batches, come out once, whole, oldest first on each CPU",
    round,
    steps: STEPS,
    interruptions: Interruptions::Sent,
    counts: "",
};

fn round(setting: &mut Setting) -> Arc<dyn Round> {
    // Not only powers of two.
    let most = 1 << setting.rng.u32(1..=10);
    let capacity = setting.rng.usize(1..=most);
    match setting.rng.u32(..6) {
        0 => Arc::new(Conserving::new(
            Ring::<Box<Owned>>::with_capacity_per_cpu(capacity),
            setting,
        )),
        1 => Arc::new(Conserving::new(
            Ring::<Odd>::with_capacity_per_cpu(capacity),
            setting,
        )),
        2 => Arc::new(Conserving::new(
            Ring::<Wide<3>>::with_capacity_per_cpu(capacity),
            setting,
        )),
        3 => Arc::new(Conserving::new(
            Ring::<Wide<17>>::with_capacity_per_cpu(capacity),
            setting,
        )),
        _ => Arc::new(Conserving::new(
            Ring::<u64>::with_capacity_per_cpu(capacity),
            setting,
        )),
    }
}
