//! How long to wait.

use std::time::{Duration, Instant};

use crate::sync::{AtomicU32, wait, wait_at_most, wait_briefly};

/// When waiting ends.
#[derive(Clone, Copy)]
pub(super) struct Deadline {
    /// Beyond what the clock reaches if there is none.
    instant: Option<Instant>,
    /// Did whoever waits set one?
    is_set: bool,
}

impl Deadline {
    pub const NEVER: Deadline = Deadline {
        instant: None,
        is_set: false,
    };

    pub fn at(instant: Instant) -> Deadline {
        Deadline {
            instant: Some(instant),
            is_set: true,
        }
    }

    /// So long from now.
    pub fn after(duration: Duration) -> Deadline {
        Deadline {
            instant: Instant::now().checked_add(duration),
            is_set: true,
        }
    }

    /// For one that waits for what it has interrupted: that would be for ever.
    ///
    /// # Panics
    ///
    /// Without a deadline. With one, waiting comes to nothing: false, at once.
    pub fn in_vain(self) -> bool {
        assert!(
            self.is_set,
            "the lock is held by what this handler interrupted, or by this thread itself, and would be held for ever; \
             use try_lock, and have something else to do when it returns None"
        );
        false
    }

    pub fn has_passed(self) -> bool {
        self.instant
            .is_some_and(|instant| instant <= Instant::now())
    }

    /// Sleeps while the word holds `expected`, or shorter; false, without having slept, if it has passed.
    pub fn sleep(self, word: &AtomicU32, expected: u32) -> bool {
        let Some(instant) = self.instant else {
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
