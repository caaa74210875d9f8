//! Condition variables of coroutines.

use core::fmt;

use lock_api::RawMutex;

use super::MutexGuard;
use super::scheduler::{Queue, expect_scheduler, inside};

/// A condition variable: coroutines wait for a change of what a [`Mutex`](super::Mutex) guards.
///
/// Waiting and notifying take no atomic instruction and no system call. Several locks may be used
/// with one condition variable.
///
/// ```
/// use std::rc::Rc;
/// use atomseq_threads::coroutine::{self, Condvar, Mutex};
///
/// let queue = Rc::new((Mutex::new(Vec::new()), Condvar::new()));
/// let first = || {
///     let others = Rc::clone(&queue);
///     drop(coroutine::spawn(move || {
///         others.0.lock().push(7);
///         others.1.notify_one();
///     }));
///     let mut values = queue.0.lock();
///     queue.1.wait_while(&mut values, |values| values.is_empty());
///     values.pop()
/// };
/// // SAFETY: switches outside of thread-locals.
/// assert_eq!(unsafe { coroutine::run(first) }, Some(7));
/// ```
pub struct Condvar {
    waiting: Queue,
}

impl Condvar {
    /// Creates a condition variable.
    pub const fn new() -> Condvar {
        Condvar {
            waiting: Queue::new(),
        }
    }

    /// Releases the lock, waits for a notification, and reacquires the lock. Returns for no other
    /// reason.
    ///
    /// # Panics
    ///
    /// Outside of [`run`](super::run), and, with the lock reacquired, if no other coroutine can
    /// run, so that none can notify this one. If another one holds the lock then, the process ends
    /// as in a deadlock of a [`Mutex`](super::Mutex#deadlocks).
    #[track_caller]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        let scheduler = expect_scheduler();
        // SAFETY: the lock is unlocked for the guard, which is borrowed until it is locked again.
        // Neither `wait_in` nor `lock` unwinds.
        let is_notified = unsafe {
            let lock = MutexGuard::mutex(guard).raw();
            scheduler.begin();
            lock.unlock_inside(scheduler);
            let is_notified = scheduler.wait_in(&self.waiting);
            scheduler.end();
            lock.lock();
            is_notified
        };
        if !is_notified {
            panic!("all coroutines wait, so none can notify this one");
        }
    }

    /// Waits while `condition` is true of what the lock guards.
    ///
    /// # Panics
    ///
    /// As [`wait`](Condvar::wait), and with the panic of `condition`.
    #[track_caller]
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Wakes the coroutine that has waited longest. Returns whether there was one.
    pub fn notify_one(&self) -> bool {
        inside(|scheduler| scheduler.is_some_and(|scheduler| scheduler.wake_one(&self.waiting)))
    }

    /// Wakes all coroutines that wait, and returns how many there were.
    pub fn notify_all(&self) -> usize {
        inside(|scheduler| scheduler.map_or(0, |scheduler| scheduler.wake_all(&self.waiting)))
    }
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
