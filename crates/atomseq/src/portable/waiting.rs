//! Waiting for a word to change, without a system call that every target has: yield, then sleep a little longer each time.

use core::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

const SPINS: u32 = 64;
const YIELDS: u32 = 64;

const LONGEST: Duration = Duration::from_micros(100);

/// Returns once `word` no longer holds `expected`, or after a while. Look again.
pub fn wait(word: &AtomicU32, expected: u32) {
    wait_at_most(word, expected, LONGEST);
}

/// The same, for about so long at most.
pub fn wait_at_most(word: &AtomicU32, expected: u32, limit: Duration) {
    for round in 0..SPINS + YIELDS {
        // Relaxed: the caller looks again, with the ordering that it needs.
        if word.load(Ordering::Relaxed) != expected {
            return;
        }
        if round < SPINS {
            core::hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
    thread::sleep(LONGEST.min(limit));
}

/// Waiters look by themselves: nobody is woken.
pub fn wake_one(_word: &AtomicU32) -> bool {
    false
}

/// Waiters look by themselves.
pub fn wake_all(_word: &AtomicU32) {}
