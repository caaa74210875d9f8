//! How long to wait.

use std::time::{Duration, Instant};

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

impl Deadline {
    /// So long from now.
    pub fn after(duration: Duration) -> Deadline {
        let instant = Instant::now().checked_add(duration);
        instant.map_or(Deadline::BeyondClock, Deadline::At)
    }

    /// For one that waits for what it has interrupted: that would be for ever.
    ///
    /// # Panics
    ///
    /// Without a deadline. With one, waiting comes to nothing: false, at once.
    pub fn in_vain(self) -> bool {
        assert!(
            !matches!(self, Deadline::Never),
            "the lock is held by what this handler interrupted, or by this thread itself, and would be held for ever; \
             use try_lock, and have something else to do when it returns None"
        );
        false
    }

    pub fn has_passed(self) -> bool {
        matches!(self, Deadline::At(instant) if instant <= Instant::now())
    }

    /// Sleeps while the word holds `expected`, or shorter; false, without having slept, if it has passed.
    pub fn sleep(self, word: &AtomicU32, expected: u32) -> bool {
        let Deadline::At(instant) = self else {
            wait(word, expected);
            return true;
        };
        let left = instant.saturating_duration_since(Instant::now());
        let sleeps = !left.is_zero();
        if sleeps {
            wait_at_most(word, expected, left);
        }
        sleeps
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
