//! What the threads of a target share, and the figures that are left when they have ended.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::lane::{Board, LANES_PER_WORKER};
use super::law;
use super::tormentor::Torments;
use crate::torture::needs::Granted;
use crate::torture::system::Timer;

/// What the director is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Making a round.
    Preparing,
    /// The workers work.
    Working,
    /// Settling the round.
    Settling,
}

/// What director, workers, tormentor and watch share.
pub struct Shared {
    /// A board a lane.
    pub boards: Vec<Arc<CachePadded<Board>>>,
    /// The round under way, from 0.
    pub round: AtomicU64,
    phase: AtomicU8,
    over: AtomicBool,
    /// Those of the workers, with their periods at first. No worker takes the lock: it could be
    /// interrupted indefinitely while it holds it.
    timers: Mutex<Vec<(Timer, Duration)>>,
    /// How many times rarer than at first the workers are interrupted.
    slowness: AtomicU32,
}

impl Shared {
    /// For so many workers.
    pub fn new(workers: usize) -> Shared {
        Shared {
            boards: (0..workers * LANES_PER_WORKER)
                .map(|_| Arc::default())
                .collect(),
            round: AtomicU64::new(0),
            phase: AtomicU8::new(Phase::Preparing as u8),
            over: AtomicBool::new(false),
            timers: Mutex::default(),
            slowness: AtomicU32::new(1),
        }
    }

    fn timers(&self) -> MutexGuard<'_, Vec<(Timer, Duration)>> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Interrupts a worker that often, if the system has a timer for it.
    pub fn start_timer(&self, thread: i32, period: Duration) {
        let timer = Timer::start(thread, period);
        self.timers().extend(timer.map(|timer| (timer, period)));
    }

    /// Ends all timers.
    pub fn stop_timers(&self) {
        self.timers().clear();
    }

    /// How many times rarer than at first the workers are interrupted.
    pub fn slowness(&self) -> u32 {
        // Relaxed: a number on its own.
        self.slowness.load(Ordering::Relaxed)
    }

    /// Interrupts the workers more rarely from now on: a thread that is interrupted again before it
    /// has done anything does nothing.
    pub fn slow_down(&self) {
        /// How many times at once, and altogether.
        const STEP: u32 = 4;
        const MAX: u32 = 1 << 16;
        let slowness = (self.slowness() * STEP).min(MAX);
        self.slowness.store(slowness, Ordering::Relaxed);
        for (timer, period) in self.timers().iter() {
            timer.set(*period * slowness);
        }
    }

    /// The boards of the workers' own lanes.
    pub fn workers(&self) -> impl Iterator<Item = &Board> {
        self.boards
            .iter()
            .step_by(LANES_PER_WORKER)
            .map(|board| &***board)
    }

    /// What the director is about.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Preparing,
            1 => Phase::Working,
            _ => Phase::Settling,
        }
    }

    /// Asks everybody to come to an end.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Has anybody asked for an end, or found a broken law?
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || law::any()
    }

    /// Operations begun so far.
    pub fn operations(&self) -> u64 {
        self.boards.iter().map(|board| board.operations()).sum()
    }

    /// Says what the director is about.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }
}

/// What was done to a target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Rounds settled.
    pub rounds: u64,
    /// Operations begun, those in handlers included.
    pub operations: u64,
    /// By the tormentor.
    pub torments: Torments,
    /// Signals that reached their handler.
    pub signals: u64,
    /// How many times rarer than at first they were sent in the end.
    pub slowness: u32,
    /// Gates closed, at the least.
    pub closings: u64,
    /// What the target itself counts.
    pub counted: u64,
    /// What the system granted, and what not.
    pub granted: Granted,
}
