//! The state of a thread: one word, changed by compare-and-swap alone (S92, figure 5.10, which the
//! thesis lacks; derived here from its text).
//!
//! ```text
//!            take          finish                    requests, and what they do beside their flag
//!   NEW ───────────┐   ┌──────────> DONE             unpark    PARKED ──> READY
//!                  v   │                             wake      WAITING ──> READY
//!   READY ──take──> RUNNING ──park──> PARKED         resume    STOPPED ──> READY, or NEW
//!     ^ ^           │ │ │ └───wait──> WAITING        signal    PARKED, WAITING ──> READY
//!     │ └───────────┘ │                              destroy   as signal and as resume
//!     │ yield, preempt│ stop                         step      STOPPED ──> READY, or NEW
//!     │               v
//!     └───────────── STOPPED <──take── NEW, READY    if STOPME is set
//! ```
//!
//! Invariants:
//!
//! 1. A thread is in exactly one queue while it is NEW or READY, and in none otherwise. The change
//!    that makes it so returns true, and its caller pushes the thread.
//! 2. The scheduler that pops a thread is the only one to take it; no request changes the phase of
//!    a thread that is in a queue. So the removal of a stopped thread needs no second word, where
//!    S92 needs a double compare-and-swap to unlink it between its neighbours.
//! 3. A request sets its flag in the same change that reads the phase. The thread tests the flags
//!    in the same change that leaves RUNNING. So a request is seen by the change that would
//!    otherwise let the thread sleep.
//! 4. A thread that was preempted is not at a safepoint. It is taken in spite of STOPME, unless the
//!    request was to stop anywhere.
//! 5. No flag brings a thread back from DONE.

use crate::sync::{AtomicU32, Ordering::SeqCst};

/// Queued, and has no stack yet.
const NEW: u32 = 0;
/// Queued; its kernel thread waits.
const READY: u32 = 1;
/// Executes.
const RUNNING: u32 = 2;
/// Waits for an event of this crate: the end of a thread or of a time.
const WAITING: u32 = 3;
/// Waits for `unpark`.
const PARKED: u32 = 4;
/// Suspended, and in no queue.
const STOPPED: u32 = 5;
/// Has finished.
const DONE: u32 = 6;
const PHASE: u32 = 7;

/// Has a stack.
const STARTED: u32 = 1 << 3;
/// An unpark that no park has consumed.
const TOKEN: u32 = 1 << 4;
/// The event of a wait.
const WOKEN: u32 = 1 << 5;
/// Left RUNNING at an instruction that is no safepoint.
const PREEMPTED: u32 = 1 << 6;
/// Once taken, runs to its next safepoint in spite of STOPME.
const STEP: u32 = 1 << 7;
/// To be suspended.
pub(crate) const STOPME: u32 = 1 << 8;
/// To be suspended wherever it is.
pub(crate) const ANYWHERE: u32 = 1 << 9;
/// Has procedures to run.
pub(crate) const SIGNALLED: u32 = 1 << 10;
/// To be destroyed.
pub(crate) const KILLED: u32 = 1 << 11;

/// All requests.
pub(crate) const REQUESTS: u32 = STOPME | SIGNALLED | KILLED;

/// What a scheduler got by taking a thread from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A thread to run, on a stack of the scheduler's.
    New,
    /// A thread that has a stack.
    Started,
    /// Nothing: the thread is suspended now.
    Stopped,
}

/// What came of an attempt to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The thread has left RUNNING.
    Begun,
    /// What it would wait for has happened; that is consumed.
    Over,
    /// A request comes first.
    Request,
}

/// The word.
#[derive(Debug)]
pub(crate) struct State(AtomicU32);

impl State {
    /// Returns the state of a thread that is about to be queued.
    pub fn new() -> State {
        State(AtomicU32::new(NEW))
    }

    /// Replaces the word by what `next` returns for it; returns what else it returns. Always
    /// stores, so that every caller happens before the next one.
    fn change<R>(&self, next: impl Fn(u32) -> (u32, R)) -> R {
        let mut word = self.0.load(SeqCst);
        loop {
            let (new, result) = next(word);
            match self.0.compare_exchange(word, new, SeqCst, SeqCst) {
                Ok(_) => return result,
                Err(now) => word = now,
            }
        }
    }

    /// Returns the requests that are set.
    pub fn requests(&self) -> u32 {
        self.0.load(SeqCst) & (REQUESTS | ANYWHERE)
    }

    /// Returns whether the thread has a stack.
    pub fn is_started(&self) -> bool {
        self.0.load(SeqCst) & STARTED != 0
    }

    /// Returns whether the thread is suspended.
    pub fn is_stopped(&self) -> bool {
        self.0.load(SeqCst) & PHASE == STOPPED
    }

    /// Takes a thread that the caller has popped from a queue.
    pub fn take(&self) -> Taken {
        self.change(|word| {
            debug_assert!(matches!(word & PHASE, NEW | READY), "not queued: {word:#x}");
            let stops = match word & (STOPME | STEP | KILLED) {
                STOPME => word & PREEMPTED == 0 || word & ANYWHERE != 0,
                _ => false,
            };
            match (stops, word & STARTED) {
                (true, _) => (word & !PHASE | STOPPED, Taken::Stopped),
                (false, started) => {
                    let rest = word & !(PHASE | PREEMPTED | STEP);
                    let taken = match started {
                        0 => Taken::New,
                        _ => Taken::Started,
                    };
                    (rest | RUNNING | STARTED, taken)
                }
            }
        })
    }

    /// Takes a thread that waits, before its event, to run on its stack what it waits for. Returns
    /// whether it did.
    pub fn take_waiting(&self) -> bool {
        self.change(|word| match word & PHASE {
            WAITING => (word & !PHASE | RUNNING, true),
            _ => (word, false),
        })
    }

    /// Makes the calling thread ready; its caller pushes it.
    pub fn yield_now(&self) {
        self.change(|word| (word & !PHASE | READY, ()));
    }

    /// Makes the calling thread ready in the middle of its code; its caller pushes it.
    pub fn preempt(&self) {
        self.change(|word| (word & !PHASE | READY | PREEMPTED, ()));
    }

    /// Suspends the calling thread if that is still requested, and its end is not.
    pub fn stop(&self) -> bool {
        self.change(|word| match word & (STOPME | KILLED) {
            STOPME => (word & !PHASE | STOPPED, true),
            _ => (word, false),
        })
    }

    /// Suspends the calling thread in the middle of its code if that is still requested.
    pub fn stop_anywhere(&self) -> bool {
        self.change(|word| match word & (STOPME | ANYWHERE | KILLED) {
            flags if flags == STOPME | ANYWHERE => (word & !PHASE | STOPPED | PREEMPTED, true),
            _ => (word, false),
        })
    }

    /// Makes the calling thread wait for `unpark`, unless one of these requests is set. An unpark
    /// comes first: a thread that steps is still to be suspended, and must get past a `park`.
    pub fn park(&self, requests: u32) -> Wait {
        self.wait_for(TOKEN, PARKED, requests)
    }

    /// Makes the calling thread wait for `wake`, unless one of these requests is set.
    pub fn wait(&self, requests: u32) -> Wait {
        self.wait_for(WOKEN, WAITING, requests)
    }

    fn wait_for(&self, event: u32, phase: u32, requests: u32) -> Wait {
        self.change(|word| {
            if word & event != 0 {
                (word & !event, Wait::Over)
            } else if word & requests != 0 {
                (word, Wait::Request)
            } else {
                (word & !PHASE | phase, Wait::Begun)
            }
        })
    }

    /// Ends a `park`, now or in the future. Returns whether to push the thread.
    pub fn unpark(&self) -> bool {
        self.change(|word| match word & PHASE {
            // The token stays for the thread to consume when it runs.
            PARKED => (word & !PHASE | READY | TOKEN, true),
            _ => (word | TOKEN, false),
        })
    }

    /// Ends a `wait`, now or in the future. Returns whether to push the thread.
    pub fn wake(&self) -> bool {
        self.change(|word| match word & PHASE {
            WAITING => (word & !PHASE | READY | WOKEN, true),
            _ => (word | WOKEN, false),
        })
    }

    /// Requests that the thread be suspended.
    pub fn suspend(&self, flags: u32) {
        self.change(|word| (word | flags, ()));
    }

    /// Withdraws that request, and makes a suspended thread ready. Returns whether to push it.
    pub fn resume(&self) -> bool {
        self.change(|word| ready_if_stopped(word & !(STOPME | ANYWHERE)))
    }

    /// Lets a suspended thread run to its next safepoint. Returns whether to push it, which is
    /// false if it is not suspended.
    pub fn step(&self) -> bool {
        self.change(|word| match word & PHASE {
            STOPPED if word & STOPME != 0 => ready_if_stopped(word & !ANYWHERE | STEP),
            _ => (word, false),
        })
    }

    /// Sets a request that a waiting thread answers at once. Returns whether to push the thread.
    pub fn request(&self, request: u32) -> bool {
        self.change(|word| {
            let new = word | request;
            match word & PHASE {
                PARKED | WAITING => (new & !PHASE | READY, true),
                STOPPED if request == KILLED => ready_if_stopped(new),
                _ => (new, false),
            }
        })
    }

    /// Withdraws a request that the calling thread is about to answer. Returns whether it was set.
    pub fn answer(&self, request: u32) -> bool {
        self.change(|word| (word & !request, word & request != 0))
    }

    /// Ends the calling thread.
    pub fn finish(&self) {
        self.change(|word| (word & !PHASE | DONE, ()));
    }
}

fn ready_if_stopped(word: u32) -> (u32, bool) {
    let phase = match word & STARTED {
        0 => NEW,
        _ => READY,
    };
    match word & PHASE {
        STOPPED => (word & !PHASE | phase, true),
        _ => (word, false),
    }
}
