//! What the threads of a target share, and the figures that are left when they have ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use super::lane::{Board, LANES_PER_WORKER};
use super::law;
use super::tormentor::Torments;

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
    /// Gates closed, at the least.
    pub closings: u64,
    /// What the target itself counts.
    pub counted: u64,
    /// Timers that the system refused.
    pub timers_refused: u64,
}
