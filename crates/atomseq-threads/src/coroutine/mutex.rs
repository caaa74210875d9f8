//! A lock whose waiters let other coroutines run.

use core::fmt;

use atomseq::mutex::{Restarting, TestAndSet};
use lock_api::GuardNoSend;

use super::scheduler::{Queue, Scheduler, deadlock, scheduler};

/// The raw lock of [`Mutex`]: a test-and-set that a tick restarts (B91, section 3.1), and the queue
/// of the coroutines that wait.
pub struct RawMutex {
    flag: Restarting,
    waiting: Queue,
}

/// A lock between the coroutines of a run. A waiter lets others run, first in, first out.
///
/// Locking and unlocking take no atomic instruction and no system call. Not fair: a coroutine that
/// asks while the first waiter has not run yet gets the lock.
///
/// ```
/// use std::rc::Rc;
/// use atomseq_threads::coroutine::{self, Mutex};
///
/// let sum = Rc::new(Mutex::new(0));
/// let add = || {
///     for n in 1..=4 {
///         let sum = Rc::clone(&sum);
///         drop(coroutine::spawn(move || {
///             let mut sum = sum.lock();
///             coroutine::yield_now(); // the others wait
///             *sum += n;
///         }));
///     }
/// };
/// // SAFETY: switches outside of thread-locals.
/// unsafe { coroutine::run(add) };
/// assert_eq!(*sum.lock(), 10);
/// ```
///
/// # Deadlocks
///
/// If a coroutine waits while no other one can run, none will ever unlock. Then `lock` ends the
/// process with a message, for it must not unwind.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// The guard of a [`Mutex`].
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// The guard of a part of what a [`Mutex`] protects.
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

impl fmt::Debug for RawMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawMutex")
            .field("is_locked", &self.flag.is_set())
            .finish_non_exhaustive()
    }
}

// SAFETY: `lock` and `try_lock` return (true) only after a test-and-set found the flag clear, and
// only `unlock` clears it. The flag is atomic with respect to handlers, so also to what a tick
// makes run; and the lock is not `Sync`.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to make new ones"
    )]
    const INIT: RawMutex = RawMutex {
        flag: Restarting::CLEAR,
        waiting: Queue::new(),
    };

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        if !self.flag.test_and_set() {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.flag.test_and_set()
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.flag.clear() };
        if !self.waiting.is_empty() {
            self.wake();
        }
    }

    fn is_locked(&self) -> bool {
        self.flag.is_set()
    }
}

impl RawMutex {
    #[cold]
    fn wait(&self) {
        let Some(scheduler) = scheduler() else {
            deadlock("the lock is held, and this thread is in no `coroutine::run`");
        };
        scheduler.begin();
        while !self.flag.test_and_set() {
            if !scheduler.wait_in(&self.waiting) {
                deadlock("a coroutine waits for a lock, and no other one can run to unlock it");
            }
        }
        scheduler.end();
    }

    /// Makes the first waiter ready.
    #[cold]
    fn wake(&self) {
        let Some(scheduler) = scheduler() else { return };
        scheduler.begin();
        scheduler.wake_one(&self.waiting);
        scheduler.end();
    }

    /// Unlocks between `begin` and `end`.
    ///
    /// # Safety
    ///
    /// The caller holds the lock.
    pub(super) unsafe fn unlock_inside(&self, scheduler: &Scheduler) {
        // SAFETY: the caller's promise.
        unsafe { self.flag.clear() };
        scheduler.wake_one(&self.waiting);
    }
}
