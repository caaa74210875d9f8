//! A number of permits, and threads that sleep until there is one: one word, whose top bit says
//! that somebody sleeps, and whose other bits count permits.
//!
//! A sleeper sleeps while the word is WAITING, with no permits. A release takes the mark off and
//! wakes as many as it adds permits. Who has slept puts the mark back when it takes a permit, or
//! finds none, or gives up: for it cannot know whether it was the last. If it leaves permits
//! behind, it wakes the next: releases that found no mark meanwhile have woken nobody. So they rely
//! on a woken thread to run; one that exits instead leaves the mark off until another puts it back.
//!
//! Models in `verify/` compile this file a second time.

use crate::sync::{AtomicU32, Ordering, pause, pauses, wake_many, wake_one};

/// Somebody sleeps, or is about to, or did.
const WAITING: u32 = 1 << 31;

/// The most permits there can be.
pub(super) const MAX: u32 = WAITING - 1;

/// How many there are.
pub(super) fn count(word: &AtomicU32) -> u32 {
    // Relaxed: out of date at once.
    word.load(Ordering::Relaxed) & MAX
}

/// Takes one if there is one.
#[inline(always)]
pub(super) fn try_acquire(word: &AtomicU32) -> bool {
    take(word, 0).is_ok()
}

/// Takes one, and puts `mark` on the word; returns the word as it is then, or as it was, without
/// permits.
#[inline(always)]
fn take(word: &AtomicU32, mark: u32) -> Result<u32, u32> {
    // Relaxed: the exchange looks again.
    let mut current = word.load(Ordering::Relaxed);
    while current & MAX != 0 {
        let taken = (current - 1) | mark;
        // Acquire: pairs with the Release in `release`. Relaxed: tried again.
        match word.compare_exchange_weak(current, taken, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return Ok(taken),
            Err(other) => current = other,
        }
    }
    Err(current)
}

/// Takes one, and sleeps until it can; false if `sleep` said so.
///
/// `sleep` sleeps while the word that it is given holds the value that it is given, or until it was
/// woken, or for no reason, and returns true; or returns false without having slept, and then the
/// waiting ends.
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
                // Relaxed: the mark brings nothing with it.
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

/// Adds permits, and wakes as many threads that wait; false, without having done anything, if there
/// would be too many.
#[inline]
pub(super) fn release(word: &AtomicU32, permits: u32) -> bool {
    // The mark stays on where there is nobody to wake.
    if permits == 0 {
        return true;
    }
    // Relaxed: the exchange looks again.
    let mut current = word.load(Ordering::Relaxed);
    loop {
        let Some(sum) = (current & MAX)
            .checked_add(permits)
            .filter(|sum| *sum <= MAX)
        else {
            return false;
        };
        // Release: pairs with the Acquire in `take`. Relaxed: tried again.
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
