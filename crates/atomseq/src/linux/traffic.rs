//! The agreement between threads that close gates and threads that fork: at the moment of a fork, no gate is
//! closed and none will be closed until it is over.
//!
//! Forks follow one another too. A forking thread may still have a handler of its own close gates, without
//! asking here: they are open again before its fork goes on, and no other fork can be copying them.
//!
//! A closer may hold what the fork is waiting for: it may be in a signal handler that interrupted `malloc`, whose
//! locks the C library takes before it copies the process. So it waits a little, for politeness, and then goes on
//! uncounted. The child may then find its gate closed, and takes it over (see `percpu/lock.rs`).

use crate::sync::{AtomicU32, Ordering, PATIENCE, wait, wait_briefly, wake_all};

/// Low 20 bits: threads that may close gates. Above: a fork is under way.
pub(super) struct Traffic(pub(super) AtomicU32);

const FORK: u32 = 1 << 20;
const CLOSERS: u32 = FORK - 1;

impl Traffic {
    /// Counts this thread as one that may close gates, once no fork is under way; `false` if that took too long.
    pub(super) fn enter(&self) -> bool {
        let mut patience = PATIENCE;
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & FORK != 0 {
                if patience == 0 {
                    return false;
                }
                wait_briefly(&self.0, word);
                let now = self.0.load(Ordering::Relaxed);
                // What woke it earlier was a closer that left.
                patience -= u32::from(now == word);
                word = now;
                continue;
            }
            // Acquire: pairs with the Release in `forked`, so that what ran during the fork is seen.
            match self
                .0
                .compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Undoes an [`enter`](Traffic::enter).
    pub(super) fn leave(&self) {
        // Release: pairs with the Acquire in `fork`: the child's copy holds all that was done inside.
        let before = self.0.fetch_sub(1, Ordering::Release);
        if before == FORK + 1 {
            wake_all(&self.0);
        }
    }

    /// Waits until no other fork is under way and no thread may close a gate. New ones wait.
    pub(super) fn fork(&self) {
        // Relaxed: the loop below has the ordering.
        while self.0.fetch_or(FORK, Ordering::Relaxed) & FORK != 0 {
            let word = self.0.load(Ordering::Relaxed);
            if word & FORK != 0 {
                wait(&self.0, word);
            }
        }
        loop {
            // Acquire: pairs with the Release in `leave`.
            let word = self.0.load(Ordering::Acquire);
            if word & CLOSERS == 0 {
                return;
            }
            wait(&self.0, word);
        }
    }

    /// The fork is over.
    pub(super) fn forked(&self) {
        // Release: pairs with the Acquire in `enter`.
        self.0.fetch_sub(FORK, Ordering::Release);
        wake_all(&self.0);
    }
}
