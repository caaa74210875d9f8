//! A lock whose waiters spin and yield.

use std::thread;
use std::time::{Duration, Instant};

use super::deadline::{Deadline, without_unwinding};
use super::{Interlocked, TestAndSet};
use crate::scope::Scope;
use crate::sync::{pause, pauses};

/// The raw lock of [`SpinLock`](super::SpinLock): a [`TestAndSet`] that is retried until it was
/// clear.
///
/// It cannot be unlocked fairly, because it does not know its waiters.
#[derive(Debug)]
pub struct RawSpin<M = Interlocked> {
    flag: M,
}

// SAFETY: `lock` and the others return true only after a test-and-set found the flag clear. The
// mechanism guarantees that no two test-and-sets return true without a clear in between. Only
// `unlock` clears, once for each.
unsafe impl<M: TestAndSet> lock_api::RawMutex for RawSpin<M> {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to make new ones"
    )]
    const INIT: RawSpin<M> = RawSpin { flag: M::CLEAR };
    /// The lock is only the flag. The mechanism says whether another thread may clear it.
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

// SAFETY: `try_lock_for` and `try_lock_until` return true only after a test-and-set found the flag
// clear. Otherwise they return false.
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
    /// Returns the lock's mechanism.
    pub fn mechanism(&self) -> &M {
        &self.flag
    }

    #[cold]
    fn lock_slowly(&self, deadline: Deadline) -> bool {
        self.flag.found_held();
        if !M::Scope::WAITING_HELPS {
            return deadline.fail_at_once();
        }
        let mut round = 0;
        while self.flag.is_set() || !self.flag.test_and_set() {
            if round < pauses() {
                pause(round);
                round += 1;
            } else if deadline.has_passed() {
                return false;
            } else {
                // The holder may need this processor.
                self.flag.blocks();
                thread::yield_now();
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BiasedFlag, Masked, OnCpu, Restarting, Rolling, SpinLockBy};
    use super::*;

    fn check_exclusion<M: TestAndSet>() {
        let lock = SpinLockBy::<M, u64>::new(0);
        {
            let mut guard = lock.lock();
            *guard += 1;
            assert!(lock.try_lock().is_none());
        }
        assert_eq!(*lock.try_lock().unwrap(), 1);
    }

    #[test]
    fn every_mechanism_excludes_a_second_guard() {
        check_exclusion::<Interlocked>();
        check_exclusion::<Restarting>();
        check_exclusion::<Rolling>();
        check_exclusion::<Masked>();
        check_exclusion::<OnCpu>();
        check_exclusion::<BiasedFlag>();
    }

    #[test]
    fn concurrent_increments_are_not_lost() {
        const EACH: usize = crate::tests::rounds(100_000);
        let lock = SpinLockBy::<Interlocked, _>::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..EACH).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 4 * EACH);
    }
}
