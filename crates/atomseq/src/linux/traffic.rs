//! The agreement between threads that close gates and threads that fork: at the moment of a fork, no gate is
//! closed and none will be closed until it is over.
//!
//! Forks follow one another too. A forking thread may still have a handler of its own close gates, without
//! asking here: they are open again before its fork goes on, and no other fork can be copying them.

use crate::sync::{AtomicU32, Ordering, wait, wake_all};

/// Low 20 bits: threads that may close gates. Above: a fork is under way.
pub(super) struct Traffic(pub(super) AtomicU32);

const FORK: u32 = 1 << 20;
const CLOSERS: u32 = FORK - 1;

impl Traffic {
    /// Counts this thread as one that may close gates, once no fork is under way.
    pub(super) fn enter(&self) {
        // Acquire: pairs with the Release in `forked`, so that what ran during the fork is seen.
        self.change(|word| word + 1, Ordering::Acquire);
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
        self.change(|word| word | FORK, Ordering::Relaxed);
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

    /// Changes the word once no fork is under way.
    fn change(&self, change: impl Fn(u32) -> u32, success: Ordering) {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & FORK != 0 {
                wait(&self.0, word);
                word = self.0.load(Ordering::Relaxed);
                continue;
            }
            // Relaxed on failure: only the exchange counts.
            match self
                .0
                .compare_exchange_weak(word, change(word), success, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }
}
