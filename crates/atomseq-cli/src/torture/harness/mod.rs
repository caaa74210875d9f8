//! The machinery that all targets share: threads in rounds, their disturbance, the books, and the
//! watch over all of it.
//!
//! ```text
//! watch (main thread) ──> director ──rounds──> workers   each: its own lane, and two that interrupt it
//!                             └──> tormentor: moves, signals, fences, restart limits
//! ```
//!
//! A round is a fresh structure, a bounded number of operations by every worker, and an exact
//! settlement once all of them have stopped. The operations follow from the seed; how threads
//! interleave does not.

pub mod crew;
pub mod interrupts;
pub mod lane;
pub mod law;
pub mod ledger;
pub mod sabotage;
pub mod shared;
pub mod tormentor;
pub mod watch;

use std::sync::Arc;

use self::lane::Lane;
use self::law::Checked;
use self::sabotage::Sabotage;

/// Operations a worker begins in a round, and values a lane may issue in it.
pub const STEPS: u32 = 8_192;

/// A structure under torture, for one round.
pub trait Round: Send + Sync {
    /// One operation of the lane's choice, concurrently with those of the others.
    fn step(&self, lane: &mut Lane) -> Checked;

    /// The same from a signal handler: only what is allowed there, and nothing that allocates or
    /// locks.
    fn interrupt(&self, _lane: &mut Lane) -> Checked {
        Ok(())
    }

    /// The settlement, after all lanes have stopped.
    fn finish(&mut self, lanes: &mut [Lane]) -> Checked;

    /// Whether the handlers' lanes go to threads that the workers start.
    fn has_guests(&self) -> bool {
        false
    }
}

/// What a round is made from.
pub struct Setting {
    /// Chooses the round's sizes and moods.
    pub rng: fastrand::Rng,
    /// How many lanes there are.
    pub lanes: usize,
    /// For the ledger's checks.
    pub salt: u64,
    /// A fault to inject, for targets that build it in.
    pub sabotage: Option<Sabotage>,
}

impl Interruptions {
    /// Do the handlers belong to `atomseq::signal`?
    pub fn are_managed(self) -> bool {
        matches!(self, Interruptions::Managed | Interruptions::Storm)
    }
}

/// What interrupts the workers of a target, on an operating system that can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruptions {
    /// Signals of the tormentor's, now and then; handlers of which atomseq knows nothing.
    Sent,
    /// The same, and timers.
    Timed,
    /// The same, and timers; handlers of `atomseq::signal`.
    Managed,
    /// As many of both as the machine can send; handlers of `atomseq::signal`.
    Storm,
}

/// Something to torture.
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// What is done to it.
    pub about: &'static str,
    /// Makes a round.
    pub round: fn(&mut Setting) -> Arc<dyn Round>,
    /// Operations a worker begins in a round.
    pub steps: u32,
    /// What interrupts the workers.
    pub interruptions: Interruptions,
    /// What the lanes count beside operations, if anything.
    pub counts: &'static str,
}

/// Spreads the bits of a number (the finalizer of splitmix64).
pub fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// A seed of its own for each part of a run, from the seed of the run.
pub fn seed_for(seed: u64, target: &str, round: u64, part: u64) -> u64 {
    let name = target
        .bytes()
        .fold(seed, |seed, byte| mix(seed ^ u64::from(byte)));
    mix(mix(name ^ round)
        .wrapping_add(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_own_seed() {
        let mut seeds = std::collections::BTreeSet::new();
        for target in ["stack", "queue"] {
            for round in 0..10 {
                for part in 0..10 {
                    assert!(seeds.insert(seed_for(7, target, round, part)));
                }
            }
        }
        assert!(!seeds.contains(&seed_for(8, "stack", 0, 0)));
        assert!(seeds.contains(&seed_for(7, "stack", 0, 0)));
    }
}
