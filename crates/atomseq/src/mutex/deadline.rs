//! How long to wait.

use std::time::{Duration, Instant};

use crate::clock;
use crate::end;
use crate::sync::{AtomicU32, wait, wait_at_most, wait_briefly};

/// When waiting ends. As large as a duration, so that it is handed over in registers.
#[derive(Clone, Copy)]
pub(super) enum Deadline {
    /// Whoever waits has set no deadline.
    Never,
    /// Later than the clock's last time.
    BeyondClock,
    /// When the [`clock`] says so.
    At(Duration),
}

const _: () = assert!(size_of::<Deadline>() == size_of::<Duration>());

/// Takes a lock by `lock`, and ends the process if that unwinds.
///
/// `lock_api::MutexGuard::unlocked` takes the lock again in a destructor. Its guard survives a
/// panic there, and would stand for a lock that another guard may hold.
#[inline(always)]
pub(super) fn without_unwinding(lock: impl FnOnce()) {
    struct Unwinding;

    impl Drop for Unwinding {
        // Inlined, so that no stack is taken for a value that has no bytes.
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
    /// The time is over: also for those to whom the system refuses to tell it.
    const PASSED: Deadline = Deadline::At(Duration::ZERO);

    /// So long from now.
    pub fn after(duration: Duration) -> Deadline {
        let Some(now) = clock::now() else {
            return Deadline::PASSED;
        };
        let time = now.checked_add(duration);
        time.map_or(Deadline::BeyondClock, Deadline::At)
    }

    /// At an instant of `std`'s clock.
    pub fn at(instant: Instant) -> Deadline {
        // That clock panics if it is refused; it asks the system as the other one does, which has
        // just been answered.
        match clock::now() {
            Some(_) => Deadline::after(instant.saturating_duration_since(Instant::now())),
            None => Deadline::PASSED,
        }
    }

    /// Returns false at once, for a lock whose holder cannot run until this call returns: this
    /// thread, or what this handler has interrupted. Without a deadline the call may not return at
    /// all, and ends the process.
    pub fn in_vain(self) -> bool {
        if matches!(self, Deadline::Never) {
            end::abort(
                "atomseq: `lock` would wait indefinitely, for the lock is held by this thread or by what this signal handler has \
                 interrupted; use try_lock, and have something else to do when it returns None; aborting\n",
            );
        }
        false
    }

    pub fn has_passed(self) -> bool {
        matches!(self, Deadline::At(time) if left(time).is_zero())
    }

    /// Sleeps while the word holds `expected`, or shorter; false, without having slept, if it has
    /// passed.
    pub fn sleep(self, word: &AtomicU32, expected: u32) -> bool {
        self.sleep_until_woken(word, expected).is_some()
    }

    /// The same; `None` if it has passed, else whether a wake-up ended the sleep.
    pub fn sleep_until_woken(self, word: &AtomicU32, expected: u32) -> Option<bool> {
        let Deadline::At(time) = self else {
            return Some(wait(word, expected));
        };
        let left = left(time);
        (!left.is_zero()).then(|| wait_at_most(word, expected, left))
    }

    /// The same, for a millisecond at most.
    pub fn sleep_briefly(self, word: &AtomicU32, expected: u32) -> bool {
        let sleeps = !self.has_passed();
        if sleeps {
            wait_briefly(word, expected);
        }
        sleeps
    }
}

/// How long it is until then. Nothing if the system refuses to tell the time.
fn left(time: Duration) -> Duration {
    clock::now().map_or(Duration::ZERO, |now| time.saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::super::{Condvar, Mutex, Semaphore, SpinLock};
    use super::*;
    use crate::clock::refusal;

    const LONG: Duration = Duration::from_secs(10_000);

    /// Nothing panics while a lock, a permit or a notification is waited for, and nothing waits for
    /// long.
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

    /// The clock is refused while a thread waits: from another thread, a filter may be set for all.
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
