//! A lane: one sequential actor of a round. A worker has three: its own, and one for each of its
//! two signal handlers, which may interrupt it anywhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use super::Sabotage;

/// How many lanes a worker has.
pub const LANES_PER_WORKER: usize = 3;

/// The max number of objects that a lane holds at a time.
pub const MAX_HELD: usize = 8;

/// How many sums a lane can keep.
pub const TOTALS: usize = 256;

macro_rules! activities {
    ($($name:ident: $text:literal,)*) => {
        /// What a lane is doing, for the report of a hang.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Activity { $(#[doc = $text] $name,)* }

        impl Activity {
            const ALL: &[(Activity, &str)] = &[$((Activity::$name, $text),)*];
        }
    };
}

activities! {
    Nothing: "nothing",
    Between: "between two operations",
    Push: "a push",
    Pop: "a pop",
    PushMany: "a push of many",
    PopMany: "a pop of many",
    Steal: "a steal",
    Drain: "a drain",
    Add: "an addition",
    Sum: "a sum",
    Get: "a get",
    Put: "a put",
    Close: "the closing of a gate",
    Mask: "a change with signals deferred",
    Start: "the start of a thread",
    Join: "the wait for a thread's end",
    Fork: "a fork",
    Child: "the wait for a forked child",
    SpinLock: "an acquisition of a spin lock",
    Mutex: "an acquisition of a mutex",
    HandlersLock: "an acquisition of a lock shared with handlers",
    Condition: "a wait for a condition variable",
    Semaphore: "a wait for a permit",
    Guests: "locking by threads on one CPU",
}

/// What other threads can read of a lane while it runs.
#[derive(Debug, Default)]
pub struct Board {
    activity: AtomicU8,
    operations: AtomicU64,
    /// The thread ID of the worker that has the lane; 0 while none has.
    pub thread: AtomicI32,
    /// The thread ID to which signals are sent: the worker's, or its guest's.
    pub signalled: AtomicI32,
}

impl Board {
    /// Returns what the lane is doing.
    pub fn activity(&self) -> &'static str {
        let code = self.activity.load(Ordering::Relaxed);
        let known = Activity::ALL.iter().find(|(known, _)| *known as u8 == code);
        known.map_or("something", |(_, text)| text)
    }

    /// Returns how many operations the lane has begun.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// Returns whether the lane has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.activity.load(Ordering::Relaxed) == Activity::Nothing as u8
    }
}

/// One sequential actor, with everything that only it may access.
pub struct Lane {
    /// Its number, unique in the round.
    pub number: usize,
    /// Chooses its operations.
    pub rng: fastrand::Rng,
    /// How many values it has issued in this round.
    pub issued: u32,
    /// The objects that it holds, by their kind.
    pub held: [Vec<u32>; 2],
    /// Its sums; each target gives them a meaning.
    pub totals: Vec<u64>,
    /// For each CPU and lane, the number after that of the last value taken out; empty when the
    /// lane does not check the order.
    pub seen: Vec<u32>,
    /// How many gates it closed, at least: derived from what the structures returned.
    pub closings: u64,
    /// What the target counts beside operations.
    pub counted: u64,
    /// A fault to inject once.
    pub sabotage: Option<Sabotage>,
    /// The handlers' lanes, in rounds whose workers start threads that need them.
    pub guests: Option<Box<[Lane; LANES_PER_WORKER - 1]>>,
    board: Arc<CachePadded<Board>>,
}

impl Lane {
    /// Returns a lane that has done nothing yet.
    pub fn new(number: usize, seed: u64, watched: usize, board: Arc<CachePadded<Board>>) -> Lane {
        Lane {
            number,
            rng: fastrand::Rng::with_seed(seed),
            issued: 0,
            held: [(); 2].map(|()| Vec::with_capacity(MAX_HELD)),
            totals: vec![0; TOTALS],
            seen: vec![0; watched],
            closings: 0,
            counted: 0,
            sabotage: None,
            guests: None,
            board,
        }
    }

    /// Publishes that an operation begins, and counts it.
    pub fn begin(&self, activity: Activity) {
        // Relaxed throughout: independent figures that only this lane writes.
        self.board.activity.store(activity as u8, Ordering::Relaxed);
        let operations = self.board.operations.load(Ordering::Relaxed);
        self.board
            .operations
            .store(operations + 1, Ordering::Relaxed);
    }

    /// Publishes that the lane is between two operations.
    pub fn pause(&self) {
        self.board
            .activity
            .store(Activity::Between as u8, Ordering::Relaxed);
    }

    /// Publishes that the lane has nothing to do.
    pub fn rest(&self) {
        self.board
            .activity
            .store(Activity::Nothing as u8, Ordering::Relaxed);
    }

    /// Returns what other threads can read of it.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Returns true with a probability of one in `chances`.
    pub fn one_in(&mut self, chances: u32) -> bool {
        self.rng.u32(..chances) == 0
    }

    /// Returns whether to inject this fault now; true at most once.
    pub fn inject(&mut self, kind: Sabotage) -> bool {
        self.sabotage.take_if(|wanted| *wanted == kind).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_shows_what_its_lane_does() {
        let board = Arc::new(CachePadded::new(Board::default()));
        let mut lane = Lane::new(4, 7, 0, board.clone());
        assert!(board.is_idle());
        lane.begin(Activity::Fork);
        assert_eq!((board.activity(), board.operations()), ("a fork", 1));
        lane.rest();
        assert!(board.is_idle());
        lane.sabotage = Some(Sabotage::Lose);
        assert!(!lane.inject(Sabotage::Hang));
        assert!(lane.inject(Sabotage::Lose));
        assert!(!lane.inject(Sabotage::Lose));
    }
}
