//! A lock whose waiters relinquish the processor.
//!
//! ```text
//! lock     test-and-set; or, not at once: waiting = 1; settle; remember the event; look once more; sleep on the event
//! unlock   clear, then look at waiting; if somebody is: waiting = 0; another event; wake one
//! ```
//!
//! A waiter that took the lock after having slept leaves `waiting` set, for it cannot know whether it was the last.

use super::{Interlocked, TestAndSet};
use crate::scope::Scope;
use crate::sync::{AtomicU32, Ordering, SPINS, spin_loop, wait, wake_one};

/// What is behind [`Mutex`](super::Mutex): a [`TestAndSet`], and threads that sleep until it is clear.
#[derive(Debug)]
pub struct RawMutex<M = Interlocked> {
    flag: M,
    /// Somebody sleeps, or is about to.
    waiting: AtomicU32,
    /// Counts wake-ups: what sleepers sleep on.
    event: AtomicU32,
}

// SAFETY: `lock` returns once a test-and-set found the flag clear; exclusion is the mechanism's.
unsafe impl<M: TestAndSet> lock_api::RawMutex for RawMutex<M> {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to make new ones"
    )]
    const INIT: RawMutex<M> = RawMutex {
        flag: M::CLEAR,
        waiting: AtomicU32::new(0),
        event: AtomicU32::new(0),
    };
    type GuardMarker = M::GuardMarker;

    #[inline]
    fn lock(&self) {
        if !self.flag.test_and_set() {
            self.lock_slowly();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.flag.test_and_set()
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.flag.clear_then_look() }
        // SeqCst: pairs with the waiter's store, as `clear_then_look` says.
        if self.waiting.load(Ordering::SeqCst) != 0 {
            self.wake();
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.flag.is_set()
    }
}

impl<M: TestAndSet> RawMutex<M> {
    #[cold]
    fn lock_slowly(&self) {
        self.flag.found_held();
        assert!(
            M::Scope::WAITING_HELPS,
            "the lock is held by what this handler interrupted, or by this thread: it would wait for ever"
        );
        for _ in 0..SPINS {
            if !self.flag.is_set() && self.flag.test_and_set() {
                return;
            }
            spin_loop();
        }
        loop {
            // SeqCst: pairs with the load in `unlock`.
            self.waiting.store(1, Ordering::SeqCst);
            self.flag.settle();
            // SeqCst: before the last look, so that an event after it is noticed.
            let event = self.event.load(Ordering::SeqCst);
            if self.flag.test_and_set() {
                return;
            }
            self.flag.blocks();
            wait(&self.event, event);
        }
    }

    #[cold]
    fn wake(&self) {
        // Relaxed: the event below orders it.
        if self.waiting.swap(0, Ordering::Relaxed) != 0 {
            self.event.fetch_add(1, Ordering::SeqCst);
            wake_one(&self.event);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::Mutex;

    #[test]
    fn nothing_is_lost_between_threads() {
        let lock = Mutex::<u64>::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100_000).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 400_000);
    }
}
