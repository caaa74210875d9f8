//! The permits of a semaphore, and the threads that sleep until there is one. In one word, the top
//! bit says that a thread sleeps, and the other bits count permits.
//!
//! A thread sleeps while the word is WAITING without permits. A release clears the mark, and wakes
//! as many threads as it adds permits. A thread that has slept sets the mark again when it takes a
//! permit, finds none, or times out, because it cannot know whether it was the last sleeper. If it
//! leaves permits, it wakes the next thread, because releases that found no mark meanwhile have
//! woken none. These releases rely on the woken thread to run. If it exits instead, the mark stays
//! cleared until another thread sets it.
//!
//! The models in `verify/` compile this file a second time.

use crate::sync::{AtomicU32, Ordering, pause, pauses, wake_many, wake_one};

/// A thread sleeps, or is about to sleep, or has slept.
const WAITING: u32 = 1 << 31;

/// The maximum number of permits.
pub(super) const MAX: u32 = WAITING - 1;

/// Returns the number of permits.
pub(super) fn count(word: &AtomicU32) -> u32 {
    // Relaxed: the number may be out of date anyway.
    word.load(Ordering::Relaxed) & MAX
}

/// Takes a permit if there is one.
#[inline(always)]
pub(super) fn try_acquire(word: &AtomicU32) -> bool {
    take(word, 0).is_ok()
}

/// Takes a permit, and sets the bits of `mark` in the word. Returns the new word. If there is no
/// permit, changes nothing and returns the word as `Err`.
#[inline(always)]
fn take(word: &AtomicU32, mark: u32) -> Result<u32, u32> {
    // Relaxed: the exchange reads the word again.
    let mut current = word.load(Ordering::Relaxed);
    while current & MAX != 0 {
        let taken = (current - 1) | mark;
        // Acquire: pairs with the Release in `release`. Relaxed on failure: the exchange is
        // retried.
        match word.compare_exchange_weak(current, taken, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return Ok(taken),
            Err(other) => current = other,
        }
    }
    Err(current)
}

/// Takes a permit, sleeping until there is one. Returns false if `sleep` has reported a timeout.
///
/// `sleep` gets a word and a value. It sleeps while the word holds the value, until it is woken, or
/// for no reason, and returns true. It returns false on a timeout, without having slept.
#[cold]
pub(super) fn acquire(word: &AtomicU32, mut sleep: impl FnMut(&AtomicU32, u32) -> bool) -> bool {
    for round in 0..pauses() {
        if try_acquire(word) {
            return true;
        }
        pause(round);
    }
    let mut mark = 0;
    loop {
        match take(word, mark) {
            Ok(left) => {
                if mark != 0 && left & MAX != 0 {
                    wake_one(word);
                }
                return true;
            }
            Err(WAITING) => {}
            Err(none) => {
                // Relaxed: the mark publishes nothing.
                let marked =
                    word.compare_exchange(none, WAITING, Ordering::Relaxed, Ordering::Relaxed);
                if marked.is_err() {
                    continue;
                }
            }
        }
        if !sleep(word, WAITING) {
            return false;
        }
        mark = WAITING;
    }
}

/// Adds permits, and wakes as many sleeping threads. Returns false, and changes nothing, if there
/// would be too many permits.
#[inline]
pub(super) fn release(word: &AtomicU32, permits: u32) -> bool {
    // Otherwise the mark would be cleared without a wake-up.
    if permits == 0 {
        return true;
    }
    // Relaxed: the exchange reads the word again.
    let mut current = word.load(Ordering::Relaxed);
    loop {
        let Some(sum) = (current & MAX)
            .checked_add(permits)
            .filter(|sum| *sum <= MAX)
        else {
            return false;
        };
        // Release: pairs with the Acquire in `take`. Relaxed on failure: the exchange is retried.
        match word.compare_exchange_weak(current, sum, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => break,
            Err(other) => current = other,
        }
    }
    if current & WAITING != 0 {
        wake_many(word, permits);
    }
    true
}
