//! Waiting for a word to change without a system call that only some targets have: yields, then
//! sleeps.
//!
//! Sleepers wake by themselves and are not woken by others. No lock is therefore handed over to a
//! sleeper, which may have exited or may exist only in the parent of this process.

use core::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crate::clock;

const SPINS: u32 = 64;
const YIELDS: u32 = 64;

const MAX_SLEEP: Duration = Duration::from_micros(100);

/// Waits until `word` no longer holds `expected`. May return early, so the caller checks again.
/// Returns `false`, because no wake-up ends the sleep.
pub fn wait(word: &AtomicU32, expected: u32) -> bool {
    wait_at_most(word, expected, Duration::MAX)
}

/// Waits as [`wait`] does, for at most a short while.
pub fn wait_briefly(word: &AtomicU32, expected: u32) -> bool {
    wait_at_most(word, expected, MAX_SLEEP)
}

/// Waits as [`wait`] does, for at most about `limit`.
pub fn wait_at_most(word: &AtomicU32, expected: u32, limit: Duration) -> bool {
    // Relaxed: the caller loads again, with the ordering that it needs.
    let unchanged = || word.load(Ordering::Relaxed) == expected;
    for round in 0..SPINS + YIELDS {
        if !unchanged() {
            return false;
        }
        if round < SPINS {
            core::hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
    let start = clock::now();
    let waited = || Some(clock::now()?.saturating_sub(start?));
    // Without a clock it returns at once, and the caller checks again.
    let is_over = || waited().is_none_or(|waited| waited >= limit);
    while unchanged() && !is_over() {
        thread::sleep(MAX_SLEEP.min(limit.saturating_sub(waited().unwrap_or_default())));
    }
    false
}

/// Wakes no thread and returns `false`: sleepers wake by themselves.
pub fn wake_one(_word: &AtomicU32) -> bool {
    false
}

/// Wakes no thread: sleepers wake by themselves.
pub fn wake_many(_word: &AtomicU32, _max: u32) {}

/// Wakes no thread and returns 0: sleepers wake by themselves.
pub fn wake_all(_word: &AtomicU32) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_comes_back_when_the_word_has_changed() {
        let word = AtomicU32::new(0);
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| wait(&word, 0));
            thread::sleep(MAX_SLEEP * 10);
            assert!(!sleeper.is_finished());
            word.store(1, Ordering::Relaxed);
        });
        assert!(!wake_one(&word));
    }
}
