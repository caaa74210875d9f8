//! The lock in a gate's word. Losers park.
//!
//! The word says whether the lock is held and whether somebody waits for it; an uncontended lock costs
//! no system call.

use crate::sync::{AtomicU32, Ordering, SPINS, spin_loop, wait, wake_one};

/// Somebody holds the gate.
const LOCKED: u32 = 1;
/// Somebody waits for it.
const WAITERS: u32 = 2;
/// Sequences never pass: guards, and every slot where sections are off.
pub(super) const FOR_GOOD: u32 = 4;

/// Takes the lock and returns the word as it was.
pub(super) fn lock(gate: &AtomicU32) -> u32 {
    // Once parked, a closer cannot know whether others still wait: it says they do.
    let mut mark = LOCKED;
    let mut spins = 0;
    loop {
        // Relaxed: only the exchange counts.
        let word = gate.load(Ordering::Relaxed);
        if word & LOCKED == 0 {
            // Acquire: pairs with the release that opened the gate.
            let taken =
                gate.compare_exchange_weak(word, word | mark, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return word;
            }
        } else if spins < SPINS {
            spins += 1;
            spin_loop();
        } else {
            // Relaxed: the wait re-reads the word.
            let waiting = word | WAITERS;
            let marked = word == waiting
                || gate
                    .compare_exchange(word, waiting, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if marked {
                wait(gate, waiting);
                mark = LOCKED | WAITERS;
            }
        }
    }
}

/// Gives the lock back, and wakes one of those who wait.
pub(super) fn unlock(gate: &AtomicU32) {
    // Release: pairs with the acquire load of the gate in every section, and in `lock`.
    let before = gate.fetch_and(FOR_GOOD, Ordering::Release);
    if before & WAITERS != 0 {
        wake_one(gate);
    }
}
