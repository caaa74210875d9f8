//! A lock that is tried again and again.

use std::thread;
use std::time::{Duration, Instant};

use super::deadline::{Deadline, without_unwinding};
use super::{Interlocked, TestAndSet};
use crate::scope::Scope;
use crate::sync::{pause, pauses};

/// What is behind [`SpinLock`](super::SpinLock): a [`TestAndSet`] that is tried again until it was
/// clear.
///
/// It has no fair way to be unlocked: nobody knows who waits.
#[derive(Debug)]
pub struct RawSpin<M = Interlocked> {
    flag: M,
}

// SAFETY: `lock` and the others return true once a test-and-set found the flag clear. That is
// exclusion by the mechanism, which forbids two that return true without a clear in between, and
// clears are made by `unlock` only, once for each.
unsafe impl<M: TestAndSet> lock_api::RawMutex for RawSpin<M> {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to make new ones"
    )]
    const INIT: RawSpin<M> = RawSpin { flag: M::CLEAR };
    /// There is the flag and nothing else; whether another thread may clear it, the mechanism says.
    type GuardMarker = M::GuardMarker;

    #[inline]
    fn lock(&self) {
        without_unwinding(|| {
            if !self.flag.test_and_set() {
                self.lock_slowly(Deadline::Never);
            }
        });
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let taken = self.flag.test_and_set();
        if !taken {
            self.flag.found_held();
        }
        taken
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

// SAFETY: as above; false is returned only where that has not happened.
unsafe impl<M: TestAndSet> lock_api::RawMutexTimed for RawSpin<M> {
    type Duration = Duration;
    type Instant = Instant;

    #[inline]
    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.flag.test_and_set() || self.lock_slowly(Deadline::after(timeout))
    }

    #[inline]
    fn try_lock_until(&self, timeout: Instant) -> bool {
        self.flag.test_and_set() || self.lock_slowly(Deadline::at(timeout))
    }
}

impl<M: TestAndSet> RawSpin<M> {
    /// What the lock is made of.
    pub fn mechanism(&self) -> &M {
        &self.flag
    }

    #[cold]
    fn lock_slowly(&self, deadline: Deadline) -> bool {
        self.flag.found_held();
        if !M::Scope::WAITING_HELPS {
            return deadline.in_vain();
        }
        let mut round = 0;
        while self.flag.is_set() || !self.flag.test_and_set() {
            if round < pauses() {
                pause(round);
                round += 1;
            } else if deadline.has_passed() {
                return false;
            } else {
                // Whoever holds it may wait for this processor.
                self.flag.blocks();
                thread::yield_now();
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BiasedFlag, Masked, OnCpu, Restarting, Rolling, SpinLock};
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
        excludes_itself::<OnCpu>();
        excludes_itself::<BiasedFlag>();
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
