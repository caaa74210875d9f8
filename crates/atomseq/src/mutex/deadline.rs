//! Time limits of waits.

use std::time::{Duration, Instant};

use crate::clock;
use crate::end;
use crate::sync::{AtomicU32, wait, wait_at_most, wait_briefly};

/// The time at which a wait ends. It has the size of a duration, so it is passed in registers.
#[derive(Clone, Copy)]
pub(super) enum Deadline {
    /// No deadline.
    Never,
    /// A deadline later than the clock can represent.
    BeyondClock,
    /// A time of the [`clock`].
    At(Duration),
}

const _: () = assert!(size_of::<Deadline>() == size_of::<Duration>());

/// Calls `lock`, and ends the process if it unwinds.
///
/// `lock_api::MutexGuard::unlocked` reacquires the lock in a destructor. Its guard survives a panic
/// there, and would then guard a lock that another guard may hold.
#[inline(always)]
pub(super) fn without_unwinding(lock: impl FnOnce()) {
    struct Unwinding;

    impl Drop for Unwinding {
        // Inlined, so that the zero-sized value takes no stack.
        #[inline(always)]
        fn drop(&mut self) {
            end::abort(
                "atomseq: `lock` panicked, and a guard that stands for this lock may outlive the panic; aborting\n",
            );
        }
    }

    let unwinding = Unwinding;
    lock();
    std::mem::forget(unwinding);
}

impl Deadline {
    /// A deadline that has passed, even where the system refuses to report the time.
    const PASSED: Deadline = Deadline::At(Duration::ZERO);

    /// Returns the deadline that lies `duration` from now.
    pub fn after(duration: Duration) -> Deadline {
        let Some(now) = clock::now() else {
            return Deadline::PASSED;
        };
        let time = now.checked_add(duration);
        time.map_or(Deadline::BeyondClock, Deadline::At)
    }

    /// Returns the deadline at an instant of `std`'s clock.
    pub fn at(instant: Instant) -> Deadline {
        // `Instant::now` panics if the system refuses the time. Both clocks make the same request,
        // which has just succeeded here.
        match clock::now() {
            Some(_) => Deadline::after(instant.saturating_duration_since(Instant::now())),
            None => Deadline::PASSED,
        }
    }

    /// Returns false at once, for a lock whose holder cannot run until this call returns: this
    /// thread itself, or code that this handler has interrupted. Without a deadline the wait would
    /// never end, and this ends the process.
    pub fn fail_at_once(self) -> bool {
        if matches!(self, Deadline::Never) {
            end::abort(
                "atomseq: `lock` would wait indefinitely, because this thread, or the code that this signal handler has \
                 interrupted, holds the lock; use try_lock, and handle the None that it returns; aborting\n",
            );
        }
        false
    }

    /// Returns whether the deadline has passed.
    pub fn has_passed(self) -> bool {
        matches!(self, Deadline::At(time) if left(time).is_zero())
    }

    /// Sleeps at most while the word holds `expected`. Returns false, without sleeping, if the
    /// deadline has passed.
    pub fn sleep(self, word: &AtomicU32, expected: u32) -> bool {
        self.sleep_until_woken(word, expected).is_some()
    }

    /// Sleeps at most while the word holds `expected`. Returns whether a wake-up ended the sleep,
    /// or `None`, without sleeping, if the deadline has passed.
    pub fn sleep_until_woken(self, word: &AtomicU32, expected: u32) -> Option<bool> {
        let Deadline::At(time) = self else {
            return Some(wait(word, expected));
        };
        let left = left(time);
        (!left.is_zero()).then(|| wait_at_most(word, expected, left))
    }

    /// Sleeps as [`sleep`](Deadline::sleep) does, for at most a millisecond.
    pub fn sleep_briefly(self, word: &AtomicU32, expected: u32) -> bool {
        let sleeps = !self.has_passed();
        if sleeps {
            wait_briefly(word, expected);
        }
        sleeps
    }
}

/// Returns the time left. Zero if the system refuses to report the time.
fn left(time: Duration) -> Duration {
    clock::now().map_or(Duration::ZERO, |now| time.saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::super::{Condvar, Mutex, Semaphore, SpinLock};
    use super::*;
    use crate::clock::refusal;

    const LONG: Duration = Duration::from_secs(10_000);

    /// Without a clock, no wait for a lock, a permit or a notification panics or takes long.
    #[test]
    fn a_wait_with_a_deadline_ends_at_once_without_a_clock() {
        let soon = Instant::now() + LONG;
        let (spin, mutex) = (SpinLock::<()>::new(()), Mutex::<u32>::new(0));
        let (permits, changed) = (Semaphore::new(0), Condvar::new());
        let (_spinning, mut guard) = (spin.lock(), mutex.lock());
        refusal::during(|| {
            assert!(spin.try_lock_for(LONG).is_none() && spin.try_lock_until(soon).is_none());
            assert!(mutex.try_lock_for(LONG).is_none() && mutex.try_lock_until(soon).is_none());
            assert!(permits.try_acquire_for(LONG).is_none());
            assert!(permits.try_acquire_until(soon).is_none());
            assert!(changed.wait_for(&mut guard, LONG).timed_out());
            assert!(changed.wait_until(&mut guard, soon).timed_out());
            assert!(
                changed
                    .wait_while_for(&mut guard, |_| true, LONG)
                    .timed_out()
            );
        });
    }

    /// The system refuses the time after the wait has started. Another thread can set such a filter
    /// for all.
    #[test]
    fn a_deadline_of_the_clock_has_passed_without_one() {
        let word = AtomicU32::new(0);
        let deadline = Deadline::after(LONG);
        assert!(!deadline.has_passed());
        refusal::during(|| {
            assert!(deadline.has_passed() && !deadline.sleep(&word, 0));
            assert!(!deadline.sleep_briefly(&word, 0));
            assert_eq!(deadline.sleep_until_woken(&word, 0), None);
        });
        assert!(!deadline.has_passed());
        assert!(Deadline::at(Instant::now()).has_passed());
        assert!(!Deadline::at(Instant::now() + LONG).has_passed());
    }
}
