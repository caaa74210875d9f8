//! A lock whose waiters sleep. `parking.rs` has the algorithm.

use std::time::{Duration, Instant};

use super::deadline::{Deadline, without_unwinding};
use super::parking::{self, Flag};
use super::{Interlocked, TestAndSet};
use crate::scope::Scope;
use crate::sync::{AtomicU32, Ordering};

/// The raw lock of [`Mutex`](super::Mutex): a [`TestAndSet`], and a word on which threads sleep
/// until it is clear.
#[derive(Debug)]
pub struct RawMutex<M = Interlocked> {
    flag: M,
    /// Whether a thread sleeps. Threads sleep on this word.
    waiting: AtomicU32,
}

// SAFETY: `lock` and the others return true only after a test-and-set found the flag clear, or
// after the last holder left it set for this thread alone, which replaced HANDED. The mechanism
// guarantees that no two test-and-sets return true without a clear in between. Only `unlock`
// clears, once for each. A forced `unlock` of a flag that was handed to a thread that no longer
// exists replaces HANDED itself before it clears.
unsafe impl<M: TestAndSet> lock_api::RawMutex for RawMutex<M> {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to make new ones"
    )]
    const INIT: RawMutex<M> = RawMutex {
        flag: M::CLEAR,
        waiting: AtomicU32::new(parking::NO_WAITER),
    };
    /// Any thread may change the word of waiters. The mechanism says whether another thread may
    /// clear the flag.
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
        unsafe {
            if M::Scope::WAITING_HELPS {
                parking::release(&Parked(&self.flag), &self.waiting);
            } else {
                self.flag.clear();
            }
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.flag.is_set()
    }
}

// SAFETY: `try_lock_for` and `try_lock_until` return true only after a test-and-set found the flag
// clear, or after the last holder left it set for this thread alone. Otherwise they return false.
unsafe impl<M: TestAndSet> lock_api::RawMutexTimed for RawMutex<M> {
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

/// Hands the lock itself to a waiter, so no other thread can acquire it first. Only for mechanisms
/// that another thread may clear.
// SAFETY: `unlock_fair` and `bump` hand the flag, still set, to at most one thread, or clear it.
// The mechanism allows another thread to clear it.
unsafe impl<M> lock_api::RawMutexFair for RawMutex<M>
where
    M: TestAndSet<GuardMarker = lock_api::GuardSend>,
{
    #[inline]
    unsafe fn unlock_fair(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { parking::hand_over(&Parked(&self.flag), &self.waiting) }
    }

    #[inline]
    unsafe fn bump(&self) {
        // Relaxed: a thread that has not announced itself yet has not waited.
        if self.waiting.load(Ordering::Relaxed) != parking::NO_WAITER {
            // SAFETY: the caller holds the lock.
            unsafe { self.unlock_fair() };
            lock_api::RawMutex::lock(self);
        }
    }
}

impl<M: TestAndSet> RawMutex<M> {
    /// Returns the lock's mechanism.
    pub fn mechanism(&self) -> &M {
        &self.flag
    }

    /// Locks, if that is possible until the deadline. Returns whether it has.
    #[inline]
    pub(super) fn lock_until(&self, deadline: Deadline) -> bool {
        self.flag.test_and_set() || self.lock_slowly(deadline)
    }

    #[cold]
    fn lock_slowly(&self, deadline: Deadline) -> bool {
        self.flag.found_held();
        if !M::Scope::WAITING_HELPS {
            return deadline.fail_at_once();
        }
        let has_barrier = self.flag.has_waiter_barrier();
        parking::acquire(
            &Parked(&self.flag),
            &self.waiting,
            |word, expected| match has_barrier {
                true => deadline.sleep(word, expected),
                false => deadline.sleep_briefly(word, expected),
            },
        )
    }
}

/// Adapts a mechanism to `parking`.
struct Parked<'a, M>(&'a M);

impl<M: TestAndSet> Flag for Parked<'_, M> {
    #[inline(always)]
    fn test_and_set(&self) -> bool {
        self.0.test_and_set()
    }

    #[inline(always)]
    fn is_set(&self) -> bool {
        self.0.is_set()
    }

    #[inline(always)]
    fn waiter_barrier(&self) {
        self.0.waiter_barrier();
    }

    #[inline(always)]
    unsafe fn clear_then_look(&self) {
        // SAFETY: the caller guarantees that it holds the flag.
        unsafe { self.0.clear_then_look() }
    }

    fn blocks(&self) {
        self.0.blocks();
    }

    fn handed_over(&self) {
        self.0.handed_over();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::{BiasedFlag, Mutex, MutexBy, OnCpu, Restarting, SpinLock, SpinLockBy};
    use super::*;

    fn check_exclusion<M: TestAndSet<GuardMarker = lock_api::GuardSend> + Send + Sync>() {
        const EACH: usize = crate::tests::rounds(50_000);
        let lock = MutexBy::<M, u64>::new(0);
        thread::scope(|scope| {
            for thread in 0..4 {
                let lock = &lock;
                scope.spawn(move || {
                    for _ in 0..EACH {
                        let mut guard = lock.lock();
                        *guard += 1;
                        if thread % 2 == 0 {
                            lock_api::MutexGuard::unlock_fair(guard);
                        }
                    }
                });
            }
        });
        assert_eq!(*lock.lock() as usize, 4 * EACH);
    }

    #[test]
    fn try_lock_times_out_while_another_guard_exists() {
        let (lock, spin) = (Mutex::<()>::new(()), SpinLock::<()>::new(()));
        let (_held, _spinning) = (lock.lock(), spin.lock());
        let start = Instant::now();
        let wait = Duration::from_millis(5);
        assert!(lock.try_lock_for(wait).is_none());
        assert!(start.elapsed() >= wait);
        assert!(spin.try_lock_for(wait).is_none());
        assert!(start.elapsed() >= 2 * wait);
        assert!(lock.try_lock_until(start).is_none());
        assert!(spin.try_lock_until(start).is_none());
    }

    #[test]
    fn a_lock_that_is_released_in_time_is_acquired() {
        let lock = Mutex::<u32>::new(0);
        thread::scope(|scope| {
            let held = lock.lock();
            let waiter = scope.spawn(|| lock.try_lock_for(Duration::MAX).is_some());
            thread::sleep(Duration::from_millis(5));
            drop(held);
            assert!(waiter.join().unwrap());
        });
    }

    #[test]
    fn try_lock_fails_at_once_if_its_holder_cannot_run() {
        let lock = MutexBy::<Restarting, ()>::new(());
        let _held = lock.lock();
        assert!(lock.try_lock_for(Duration::from_secs(1000)).is_none());
        assert!(lock.try_lock_for(Duration::MAX).is_none());
        let spin = SpinLockBy::<Restarting, ()>::new(());
        let _spinning = spin.lock();
        assert!(spin.try_lock_for(Duration::MAX).is_none());
    }

    #[test]
    fn concurrent_increments_are_not_lost() {
        check_exclusion::<Interlocked>();
        check_exclusion::<OnCpu>();
        check_exclusion::<BiasedFlag>();
    }
}
