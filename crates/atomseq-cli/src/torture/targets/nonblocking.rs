//! Nonblocking: what all CPUs share, by both mechanisms, with the same operations in the handlers
//! that interrupt them.

use std::sync::Arc;

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{LinkedStack, List, OneVisitorList, Queue, RefList, Stack, Unordered};

use crate::torture::harness::{Interruptions, Round, STEPS, Setting, Target};
use crate::torture::subjects::accounts::Accounts;
use crate::torture::subjects::rings::Rings;
use crate::torture::subjects::sharing::Sharing;

/// The target.
pub const TARGET: Target = Target {
    name: "nonblocking",
    about: "every value comes out once, whoever is interrupted where by the same operation; what two words say together stays true",
    round,
    steps: STEPS,
    interruptions: Interruptions::Timed,
    counts: "",
};

fn round(setting: &mut Setting) -> Arc<dyn Round> {
    let mechanism = match setting.rng.bool() {
        true => Mechanism::Assisted,
        false => Mechanism::Kcas,
    };
    // From always full to never full.
    let capacity = 1 << setting.rng.u32(0..=10);
    match setting.rng.u32(..9) {
        0 => Arc::new(Sharing::new(
            Stack::<u64>::forced(capacity, mechanism),
            setting,
        )),
        1 => {
            let queue = match mechanism {
                Mechanism::Assisted => Queue::<u64>::with_capacity(capacity),
                Mechanism::Kcas => Queue::by_kcas(capacity),
            };
            Arc::new(Sharing::new(queue, setting))
        }
        2 => Arc::new(Sharing::new(LinkedStack::<u64>::forced(mechanism), setting)),
        3 => Arc::new(Sharing::new(List::<u64>::forced(mechanism), setting)),
        4 => Arc::new(Sharing::new(
            List::<u64, (), Unordered>::unordered_forced(mechanism),
            setting,
        )),
        5 => Arc::new(Sharing::new(RefList::<u64>::forced(mechanism), setting)),
        6 => Arc::new(Sharing::new(
            OneVisitorList::<u64>::forced(mechanism),
            setting,
        )),
        7 => Arc::new(Rings::new(capacity, setting)),
        _ => Arc::new(Accounts::new(mechanism)),
    }
}
