//! A lane: one sequential actor of a round. A worker has three: its own, and one for each of its
//! two signal handlers, which interrupt it anywhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use super::sabotage::Sabotage;

/// How many lanes a worker has.
pub const LANES_PER_WORKER: usize = 3;

/// The most objects that a lane holds at a time.
pub const MAX_HELD: usize = 8;

/// How many sums a lane may keep.
pub const TOTALS: usize = 256;

macro_rules! doing {
    ($($name:ident: $text:literal,)*) => {
        /// What a lane is in the middle of, to be named when it never comes out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Doing { $(#[doc = $text] $name,)* }

        impl Doing {
            const ALL: &[(Doing, &str)] = &[$((Doing::$name, $text),)*];
        }
    };
}

doing! {
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
    Mask: "a change under the mask",
    Start: "the start of a thread",
    Join: "the wait for a thread's end",
    Fork: "a fork",
    Child: "the wait for a forked child",
    SpinLock: "an acquisition of a spin lock",
    Mutex: "an acquisition of a mutex",
    HandlersLock: "an acquisition of a lock shared with handlers",
    Condition: "a wait for a condition",
    Semaphore: "a wait for a permit",
    Guests: "a meeting of threads on one CPU",
}

/// What others may know of a lane while it runs.
#[derive(Debug, Default)]
pub struct Board {
    doing: AtomicU8,
    operations: AtomicU64,
    /// The kernel's number of the worker that has the lane; 0 while none does.
    pub thread: AtomicI32,
    /// The kernel's number of the thread that signals go to: the worker's, or its guest's.
    pub signalled: AtomicI32,
}

impl Board {
    /// What the lane is doing.
    pub fn doing(&self) -> &'static str {
        let code = self.doing.load(Ordering::Relaxed);
        let known = Doing::ALL.iter().find(|(doing, _)| *doing as u8 == code);
        known.map_or("something", |(_, text)| text)
    }

    /// How many operations it has begun.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// Is it between operations?
    pub fn is_idle(&self) -> bool {
        self.doing.load(Ordering::Relaxed) == Doing::Nothing as u8
    }
}

/// One sequential actor, with everything that it alone may touch.
pub struct Lane {
    /// Its number, unique in the round.
    pub number: usize,
    /// Chooses its operations.
    pub rng: fastrand::Rng,
    /// How many values it has issued.
    pub issued: u32,
    /// The objects in its hands, for two kinds of them.
    pub held: [Vec<u32>; 2],
    /// Its sums, with a meaning to each target.
    pub totals: Vec<u64>,
    /// For each CPU and lane the number after the last one seen coming out; empty when the lane
    /// does not watch order.
    pub seen: Vec<u32>,
    /// How many gates it closed, at the least: by what the structures gave it.
    pub closings: u64,
    /// What the target counts beside operations.
    pub counted: u64,
    /// A fault to inject, once.
    pub sabotage: Option<Sabotage>,
    /// The handlers' lanes, for rounds that hand them to threads of their own.
    pub guests: Option<Box<[Lane; LANES_PER_WORKER - 1]>>,
    board: Arc<CachePadded<Board>>,
}

impl Lane {
    /// A lane that has done nothing yet.
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

    /// Says what comes next, and counts it.
    pub fn begin(&self, doing: Doing) {
        // Relaxed throughout: figures on their own, written by this lane alone.
        self.board.doing.store(doing as u8, Ordering::Relaxed);
        let operations = self.board.operations.load(Ordering::Relaxed);
        self.board
            .operations
            .store(operations + 1, Ordering::Relaxed);
    }

    /// Says that the round goes on, but no operation is under way.
    pub fn pause(&self) {
        self.board
            .doing
            .store(Doing::Between as u8, Ordering::Relaxed);
    }

    /// Says that nothing is under way.
    pub fn rest(&self) {
        self.board
            .doing
            .store(Doing::Nothing as u8, Ordering::Relaxed);
    }

    /// What others may know of it.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// One chance in so many.
    pub fn one_in(&mut self, chances: u32) -> bool {
        self.rng.u32(..chances) == 0
    }

    /// Is this the moment for that fault? Once at most.
    pub fn strikes(&mut self, kind: Sabotage) -> bool {
        let now = self.sabotage == Some(kind);
        if now {
            self.sabotage = None;
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_tells_what_its_lane_does() {
        let board = Arc::new(CachePadded::new(Board::default()));
        let mut lane = Lane::new(4, 7, 0, board.clone());
        assert!(board.is_idle());
        lane.begin(Doing::Fork);
        assert_eq!((board.doing(), board.operations()), ("a fork", 1));
        lane.rest();
        assert!(board.is_idle());
        lane.sabotage = Some(Sabotage::Lose);
        assert!(!lane.strikes(Sabotage::Hang));
        assert!(lane.strikes(Sabotage::Lose));
        assert!(!lane.strikes(Sabotage::Lose));
    }
}
