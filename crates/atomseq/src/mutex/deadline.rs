//! How long to wait.

use std::time::{Duration, Instant};

use crate::end;
use crate::sync::{AtomicU32, wait, wait_at_most, wait_briefly};

/// When waiting ends. As large as an instant, so that it is handed over in registers.
#[derive(Clone, Copy)]
pub(super) enum Deadline {
    /// Whoever waits has set no deadline.
    Never,
    /// Later than the clock's last instant.
    BeyondClock,
    At(Instant),
}

const _: () = assert!(size_of::<Deadline>() == size_of::<Instant>());

/// Takes a lock by `lock`, and ends the process if that unwinds.
///
/// `lock_api::MutexGuard::unlocked` takes the lock again in a destructor. Its guard survives a panic there, and would
/// stand for a lock that another guard may hold.
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
    /// So long from now.
    pub fn after(duration: Duration) -> Deadline {
        let instant = Instant::now().checked_add(duration);
        instant.map_or(Deadline::BeyondClock, Deadline::At)
    }

    /// Returns false at once, for a lock whose holder cannot run until this call returns: this thread, or what
    /// this handler has interrupted. Without a deadline the call may not return at all, and ends the process.
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
        matches!(self, Deadline::At(instant) if instant <= Instant::now())
    }

    /// Sleeps while the word holds `expected`, or shorter; false, without having slept, if it has passed.
    pub fn sleep(self, word: &AtomicU32, expected: u32) -> bool {
        self.sleep_until_woken(word, expected).is_some()
    }

    /// The same; `None` if it has passed, else whether a wake-up ended the sleep.
    pub fn sleep_until_woken(self, word: &AtomicU32, expected: u32) -> Option<bool> {
        let Deadline::At(instant) = self else {
            return Some(wait(word, expected));
        };
        let left = instant.saturating_duration_since(Instant::now());
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
