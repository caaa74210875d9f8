//! Waiting for something that a lock guards. How threads sleep and are notified is in
//! `notification.rs`.

use std::time::{Duration, Instant};

use lock_api::{MutexGuard, RawMutex};

use super::deadline::Deadline;
use super::notification;
use crate::sync::AtomicU32;

/// A condition variable: threads wait for a change in what a lock guards.
///
/// It works with the guards of every `lock_api::Mutex`: all the locks here, `parking_lot`'s, your
/// own. Scope [`Machine`](crate::scope::Machine); a notification is wait-free, and costs one load
/// when nobody waits, else an atomic instruction and a system call. Waiting costs two atomic
/// instructions and a system call, beside the lock's own.
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
/// # What a notification reaches
///
/// [`notify_one`](Condvar::notify_one) wakes at least one of the threads that wait at that time,
/// the one that has slept longest unless their real-time priorities differ. Others that were about
/// to sleep return as well, as if they had been notified; so a waiter looks at what it waits for,
/// again, as [`wait_while`](Condvar::wait_while) does. If the kernel wakes a thread of higher
/// priority that began to wait only after the notification, this thread notifies all. The same
/// happens if a notified thread has returned by itself before its wake-up came: the wake-up then
/// reaches a later waiter, which returns as notified. A wait never returns for no reason but these.
/// Locks that are used with one condition variable may differ; what is notified does not depend on
/// them.
///
/// 2^32 notifications while one thread is between announcing itself and its system call would be
/// taken for none.
///
/// # With a lock of scope `SameThread`
///
/// The thread that waits has let go of the lock, so a signal handler of its own may take it with
/// `try_lock`, change what is waited for, and notify: that is async-signal-safe. A handler itself
/// must not wait, and must not keep the lock: the wait takes it again, and ends the process if it
/// is held.
///
/// # A waiter that ends
///
/// A thread ended inside a wait, by a handler that makes the system call `exit`, takes no
/// notification with it that was made later; from then on notifications cost their system call even
/// if nobody waits.
#[derive(Debug, Default)]
pub struct Condvar {
    notifications: AtomicU32,
    waiters: AtomicU32,
}

/// How a wait with a limit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Was there no notification, or, of those that wait for a condition, was it still not met?
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// One that nobody waits on.
    pub const fn new() -> Condvar {
        Condvar {
            notifications: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
        }
    }

    /// Lets go of the lock, waits for a notification, and takes the lock again.
    ///
    /// Nothing that happens under the lock after it was let go is missed.
    #[inline]
    pub fn wait<R: RawMutex, T: ?Sized>(&self, guard: &mut MutexGuard<'_, R, T>) {
        self.wait_until_deadline(guard, Deadline::Never);
    }

    /// Waits as long as `condition` holds of what the lock guards.
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

    /// The same as [`wait`](Condvar::wait), for so long at most, and however long it then takes to
    /// get the lock.
    #[inline]
    pub fn wait_for<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_until_deadline(guard, Deadline::after(timeout))
    }

    /// The same as [`wait`](Condvar::wait), until then at most, and however long it then takes to
    /// get the lock.
    #[inline]
    pub fn wait_until<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        self.wait_until_deadline(guard, Deadline::at(deadline))
    }

    /// Waits as long as `condition` holds, and for so long at most.
    #[inline]
    pub fn wait_while_for<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_while_until_deadline(guard, condition, Deadline::after(timeout))
    }

    /// Waits as long as `condition` holds, and until then at most.
    #[inline]
    pub fn wait_while_until<R: RawMutex, T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, R, T>,
        condition: impl FnMut(&mut T) -> bool,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        self.wait_while_until_deadline(guard, condition, Deadline::at(deadline))
    }

    /// Wakes one thread that waits. Async-signal-safe.
    #[inline]
    pub fn notify_one(&self) {
        notification::notify_one(&self.notifications, &self.waiters);
    }

    /// Wakes all threads that wait. Async-signal-safe.
    #[inline]
    pub fn notify_all(&self) {
        notification::notify_all(&self.notifications, &self.waiters);
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
    fn threads_take_turns() {
        let (turn, changed) = (Mutex::<u32>::new(0), Condvar::new());
        thread::scope(|scope| {
            for parity in 0..2 {
                let (turn, changed) = (&turn, &changed);
                scope.spawn(move || {
                    for _ in 0..2_000 {
                        let mut turn = turn.lock();
                        changed.wait_while(&mut turn, |turn| *turn % 2 != parity);
                        *turn += 1;
                        changed.notify_one();
                    }
                });
            }
        });
        assert_eq!(*turn.lock(), 4_000);
    }

    #[test]
    fn the_lock_is_held_again_when_time_is_up() {
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
