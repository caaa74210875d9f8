//! A lock that is tried again and again.

use std::thread;

use super::{Interlocked, TestAndSet};
use crate::scope::Scope;
use crate::sync::{SPINS, spin_loop};

/// What is behind [`SpinLock`](super::SpinLock): a [`TestAndSet`] that is tried again until it was clear.
#[derive(Debug)]
pub struct RawSpin<M = Interlocked> {
    flag: M,
}

// SAFETY: `lock` returns once a test-and-set found the flag clear; exclusion is the mechanism's.
unsafe impl<M: TestAndSet> lock_api::RawMutex for RawSpin<M> {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to make new ones"
    )]
    const INIT: RawSpin<M> = RawSpin { flag: M::CLEAR };
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
        unsafe { self.flag.clear() }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.flag.is_set()
    }
}

impl<M: TestAndSet> RawSpin<M> {
    #[cold]
    fn lock_slowly(&self) {
        self.flag.found_held();
        assert!(
            M::Scope::WAITING_HELPS,
            "the lock is held by what this handler interrupted, or by this thread: it would wait for ever"
        );
        let mut spins = 0;
        while self.flag.is_set() || !self.flag.test_and_set() {
            if spins < SPINS {
                spins += 1;
                spin_loop();
            } else {
                self.flag.blocks();
                thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Masked, Restarting, Rolling, SpinLock};
    use super::*;

    fn excludes_itself<M: TestAndSet>() {
        let lock = SpinLock::<u64, M>::new(0);
        {
            let mut guard = lock.lock();
            *guard += 1;
            assert!(lock.try_lock().is_none());
        }
        assert_eq!(*lock.try_lock().unwrap(), 1);
    }

    #[test]
    fn every_mechanism_excludes() {
        excludes_itself::<Interlocked>();
        excludes_itself::<Restarting>();
        excludes_itself::<Rolling>();
        excludes_itself::<Masked>();
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let lock = SpinLock::<u64>::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100_000).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 400_000);
    }
}
