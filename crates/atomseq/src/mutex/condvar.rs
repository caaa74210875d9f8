//! Condition variables. `notification.rs` has the algorithm by which threads sleep and are
//! notified.

use std::time::{Duration, Instant};

use lock_api::{MutexGuard, RawMutex};

use super::deadline::Deadline;
use super::notification;
use crate::sync::AtomicU32;

/// A condition variable: threads wait for a change of what a lock guards.
///
/// It works with the guards of every `lock_api::Mutex`: the locks of this module, those of
/// `parking_lot`, or your own. Scope [`Machine`](crate::scope::Machine). A notification is
/// wait-free; it costs one load if no thread waits, and otherwise an atomic instruction and a
/// system call. Waiting costs two atomic instructions and a system call, in addition to the lock.
///
/// ```
/// use atomseq::mutex::{Condvar, Mutex};
///
/// static WORK: Mutex<Vec<u32>> = Mutex::new(Vec::new());
/// static ARRIVED: Condvar = Condvar::new();
///
/// let worker = std::thread::spawn(|| {
///     let mut work = WORK.lock();
///     ARRIVED.wait_while(&mut work, |work| work.is_empty());
///     work.pop()
/// });
/// WORK.lock().push(7);
/// ARRIVED.notify_one();
/// assert_eq!(worker.join().unwrap(), Some(7));
/// ```
///
/// # Which threads a notification wakes
///
/// [`notify_one`](Condvar::notify_one) wakes at least one of the threads waiting at that time: the
/// one that has slept longest, unless their real-time priorities differ. Threads that are about to
/// sleep also return as notified. A waiter must therefore check its condition again, as
/// [`wait_while`](Condvar::wait_while) does.
///
/// In three cases a notification reaches further. If the kernel wakes a thread of higher priority
/// that started to wait after the notification, that thread notifies all. If a notified thread has
/// returned by itself before its wake-up arrives, the wake-up reaches a later waiter, which returns
/// as notified. If a signal handler or the time limit ends the sleep of a thread, it returns as
/// notified if there was a notification since it began to wait, even one that has woken another
/// thread. A wait returns for no other reason.
///
/// Several locks may be used with one condition variable; notifications do not depend on the lock.
///
/// If exactly 2^32 notifications arrive while a thread is between its announcement and its system
/// call, that thread misses them.
///
/// # With a lock of scope `SameThread`
///
/// A waiting thread has released the lock. Its own signal handler may acquire it with `try_lock`,
/// change the condition, and notify, which is async-signal-safe. A handler must not wait, and must
/// not keep the lock: the wait reacquires it, and ends the process if it is held.
///
/// # A waiter that exits
///
/// A thread that exits during a wait, because a handler makes the system call `exit`, consumes no
/// later notification. From then on, a notification costs its system call even if no thread waits.
#[derive(Debug, Default)]
pub struct Condvar {
    notifications: AtomicU32,
    waiters: AtomicU32,
}

/// The result of a wait with a time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns whether the time limit ended the wait, and there was no notification since the wait
    /// began: one for another thread counts, too. For a wait with a condition, also requires that
    /// the condition was still not met.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Creates a condition variable.
    pub const fn new() -> Condvar {
        Condvar {
            notifications: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
        }
    }

    /// Releases the lock, waits for a notification, and reacquires the lock.
    ///
    /// A notification is not missed if its change was made under the lock after this call has
    /// released it.
    #[inline]
    pub fn wait<R: RawMutex, T: ?Sized>(&self, guard: &mut MutexGuard<'_, R, T>) {
        self.wait_until_deadline(guard, Deadline::Never);
    }

    /// Waits while `condition` is true of what the lock guards.
    #[inline]
    pub fn wait_while<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// Waits as [`wait`](Condvar::wait) does, but for at most `timeout`. Reacquiring the lock may
    /// take longer.
    #[inline]
    pub fn wait_for<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_until_deadline(guard, Deadline::after(timeout))
    }

    /// Waits as [`wait`](Condvar::wait) does, but at most until `deadline`. Reacquiring the lock
    /// may take longer.
    #[inline]
    pub fn wait_until<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        self.wait_until_deadline(guard, Deadline::at(deadline))
    }

    /// Waits while `condition` is true, for at most `timeout`.
    #[inline]
    pub fn wait_while_for<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_while_until_deadline(guard, condition, Deadline::after(timeout))
    }

    /// Waits while `condition` is true, at most until `deadline`.
    #[inline]
    pub fn wait_while_until<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        condition: impl FnMut(&mut T) -> bool,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        self.wait_while_until_deadline(guard, condition, Deadline::at(deadline))
    }

    /// Wakes one waiting thread. Returns whether it woke one from its sleep. Async-signal-safe.
    ///
    /// A thread that was about to sleep returns as notified without having slept, and does not
    /// count: `false` does not prove that no thread was waiting. On systems other than Linux
    /// waiters poll, and the result is always `false`.
    #[inline]
    pub fn notify_one(&self) -> bool {
        notification::notify_one(&self.notifications, &self.waiters)
    }

    /// Wakes all waiting threads. Returns how many it woke from their sleep, as
    /// [`notify_one`](Condvar::notify_one) counts them. Async-signal-safe.
    #[inline]
    pub fn notify_all(&self) -> usize {
        notification::notify_all(&self.notifications, &self.waiters)
    }

    fn wait_while_until_deadline<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        deadline: Deadline,
    ) -> WaitTimeoutResult {
        loop {
            if !condition(guard) {
                return WaitTimeoutResult(false);
            }
            if self.wait_until_deadline(guard, deadline).timed_out() {
                return WaitTimeoutResult(condition(guard));
            }
        }
    }

    fn wait_until_deadline<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        deadline: Deadline,
    ) -> WaitTimeoutResult {
        let (notifications, waiters) = (&self.notifications, &self.waiters);
        let announced = notification::announce(notifications, waiters);
        let notified = MutexGuard::unlocked(guard, || {
            notification::wait(notifications, waiters, announced, |word, expected| {
                deadline.sleep_until_woken(word, expected)
            })
        });
        WaitTimeoutResult(!notified)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::{Mutex, SpinLock};
    use super::*;

    #[test]
    fn two_threads_alternate() {
        const EACH: usize = crate::tests::rounds(2_000);
        let (turn, changed) = (Mutex::<u32>::new(0), Condvar::new());
        thread::scope(|scope| {
            for parity in 0..2 {
                let (turn, changed) = (&turn, &changed);
                scope.spawn(move || {
                    for _ in 0..EACH {
                        let mut turn = turn.lock();
                        changed.wait_while(&mut turn, |turn| *turn % 2 != parity);
                        *turn += 1;
                        changed.notify_one();
                    }
                });
            }
        });
        assert_eq!(*turn.lock() as usize, 2 * EACH);
    }

    #[test]
    fn a_wait_that_times_out_reacquires_the_lock() {
        let (lock, changed) = (SpinLock::<u32>::new(0), Condvar::new());
        let mut guard = lock.lock();
        let short = Duration::from_millis(2);
        assert!(changed.wait_for(&mut guard, short).timed_out());
        assert!(lock.try_lock().is_none());
        let past = Instant::now();
        assert!(changed.wait_until(&mut guard, past).timed_out());
        assert!(
            changed
                .wait_while_for(&mut guard, |_| true, short)
                .timed_out()
        );
        assert!(
            !changed
                .wait_while_until(&mut guard, |_| false, past)
                .timed_out()
        );
    }
}
