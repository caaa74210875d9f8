//! The machinery that all targets share: threads in rounds, what disturbs them, the ledger, and a
//! watch over all of it.
//!
//! ```text
//! watch (main thread) ──> director ──rounds──> workers   three lanes each: its own, and one for
//!                             │                          each of its two signal handlers
//!                             └────────────> disturber   moves, signals, fences, restart limits
//! ```
//!
//! A round is a new structure, a bounded number of operations by each worker, and an exact final
//! check after all workers have stopped. The seed determines the operations, not how threads
//! interleave.

pub mod crew;
pub mod disturb;
pub mod invariant;
pub mod lane;
pub mod ledger;
pub mod watch;

use std::sync::Arc;
use std::time::Duration;

use self::invariant::Checked;
use self::lane::Lane;

/// How many operations a worker begins in a round, and how many values a lane may issue in it.
pub const STEPS: u32 = 8_192;

/// A structure under test, for one round.
pub trait Round: Send + Sync {
    /// Makes one operation of the lane's choice, concurrently with those of the other lanes.
    fn step(&self, lane: &mut Lane) -> Checked;

    /// Makes an operation in a signal handler, so it must neither allocate nor wait for a lock.
    fn interrupt(&self, _lane: &mut Lane) -> Checked {
        Ok(())
    }

    /// Makes the final check, after all lanes have stopped.
    fn finish(&mut self, lanes: &mut [Lane]) -> Checked;

    /// Returns whether the handlers' lanes go to threads that the workers start.
    fn has_guests(&self) -> bool {
        false
    }
}

/// What a round is made from.
pub struct Setting {
    /// Chooses the round's sizes and its mix of operations.
    pub rng: fastrand::Rng,
    /// How many lanes there are.
    pub lanes: usize,
    /// Salts the ledger's checksums.
    pub salt: u64,
    /// A fault to inject, for targets that implement it themselves.
    pub sabotage: Option<Sabotage>,
}

/// What interrupts the workers of a target, on an operating system that can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruptions {
    /// Occasional signals from the disturber; atomseq does not manage their handlers.
    Sent,
    /// The same, and timers.
    Timed,
    /// Occasional signals and timers; `atomseq::signal` manages their handlers.
    Managed,
    /// As many signals and timer expirations as the machine can deliver; `atomseq::signal` manages
    /// their handlers.
    Storm,
}

impl Interruptions {
    /// Returns whether `atomseq::signal` manages the handlers.
    pub fn are_managed(self) -> bool {
        matches!(self, Interruptions::Managed | Interruptions::Storm)
    }

    /// Returns the period of a worker's timer, if it has one.
    fn period(self, worker: usize) -> Option<Duration> {
        // Periods differ, so that no two workers are interrupted in step.
        let (shortest, step) = self.periods()?;
        Some(Duration::from_micros(shortest + step * (worker as u64 % 8)))
    }

    /// Returns the shortest period of a timer and the step between two workers, in microseconds.
    fn periods(self) -> Option<(u64, u64)> {
        match self {
            Interruptions::Sent => None,
            Interruptions::Timed | Interruptions::Managed => Some((150, 37)),
            Interruptions::Storm => Some((50, 3)),
        }
    }
}

/// Something to test.
pub struct Target {
    /// The name on the command line.
    pub name: &'static str,
    /// A name for it and others, also on the command line.
    pub group: &'static str,
    /// What is checked, in one line.
    pub about: &'static str,
    /// Makes a round.
    pub round: fn(&mut Setting) -> Arc<dyn Round>,
    /// How many operations a worker begins in a round.
    pub steps: u32,
    /// What interrupts the workers.
    pub interruptions: Interruptions,
    /// What the lanes count beside operations; empty if nothing.
    pub counts: &'static str,
}

/// How a target is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Determines all random choices.
    pub seed: u64,
    /// How many workers there are.
    pub workers: usize,
    /// The CPUs on which workers may run.
    pub cpus: Vec<usize>,
    /// Whether the disturber moves workers between these CPUs.
    pub moves: bool,
    /// The CPU on which the disturber runs; any if `None`.
    pub disturber: Option<usize>,
    /// A fault to inject, once a round.
    pub sabotage: Option<Sabotage>,
}

impl Options {
    /// Returns options by which workers run on all CPUs of this process: more workers than CPUs, so
    /// that they are preempted in the middle of operations.
    pub fn new(seed: u64) -> Options {
        let cpus = crate::system::allowed_cpus();
        Options {
            seed,
            workers: cpus.len() + cpus.len().min(32) + 2,
            cpus,
            moves: true,
            disturber: None,
            sabotage: None,
        }
    }
}

/// A fault that the engine injects into itself, to prove that it can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Loses one value or addition.
    Lose,
    /// Counts one value or addition twice.
    Duplicate,
    /// Stops one thread indefinitely.
    Hang,
    /// Makes one thread panic.
    Panic,
    /// Makes one thread abort the process.
    Crash,
    /// Adds a lock that excludes no other thread to those of the target `mutex`.
    Intrude,
    /// Omits the notifications of a condition variable in the target `mutex`.
    Oversleep,
}

impl Sabotage {
    /// All kinds: the name on the command line, and what it does.
    pub const ALL: [(Sabotage, &str, &str); 7] = [
        (Sabotage::Lose, "lose", "Loses one value or addition"),
        (
            Sabotage::Duplicate,
            "duplicate",
            "Counts one value or addition twice",
        ),
        (Sabotage::Hang, "hang", "Stops one thread indefinitely"),
        (Sabotage::Panic, "panic", "Makes one thread panic"),
        (
            Sabotage::Crash,
            "crash",
            "Makes one thread abort the process",
        ),
        (
            Sabotage::Intrude,
            "intrude",
            "Adds a lock without protection to those of the target mutex",
        ),
        (
            Sabotage::Oversleep,
            "oversleep",
            "Omits the notifications of a condition variable in the target mutex",
        ),
    ];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        let named = Sabotage::ALL.iter().find(|(kind, ..)| *kind == self);
        named.map_or("", |(_, name, _)| name)
    }

    /// Returns whether only the target `mutex` can have this fault.
    pub fn needs_locks(self) -> bool {
        matches!(self, Sabotage::Intrude | Sabotage::Oversleep)
    }
}

/// Returns the number with its bits spread (the finalizer of SplitMix64).
pub fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Returns a distinct seed for each part of a run, from the seed of the run.
fn seed_for(seed: u64, target: &str, round: u64, part: u64) -> u64 {
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
    fn every_part_has_a_distinct_seed() {
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
