//! A test-and-test-and-set lock with exponential backoff (Anderson 1990; Mellor-Crummey and Scott
//! 1991, 2.1): it waits twice as long after each look at a lock that is held, and gives its turn
//! away once that would be long, which is what lets it be used by more threads than there are CPUs.

use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_utils::Backoff;

use crate::bench::locking::{Exclusive, Tally};

/// The lock, around a tally.
#[derive(Default)]
pub struct BackoffLock {
    held: AtomicBool,
    tally: Tally,
}

impl Exclusive for BackoffLock {
    #[inline(always)]
    fn with(&self, work: impl FnOnce(&Tally)) {
        if self.held.swap(true, Ordering::Acquire) {
            self.wait();
        }
        work(&self.tally);
        // Release: pairs with the Acquire of whoever takes it next.
        self.held.store(false, Ordering::Release);
    }
}

impl BackoffLock {
    #[cold]
    fn wait(&self) {
        let backoff = Backoff::new();
        loop {
            backoff.snooze();
            // Relaxed: a hint. Acquire: pairs with the Release in `with`.
            if !self.held.load(Ordering::Relaxed) && !self.held.swap(true, Ordering::Acquire) {
                return;
            }
        }
    }
}
