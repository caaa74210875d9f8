//! The lock in a gate's word. Losers park.
//!
//! The word says whether the lock is held, in which process, and whether somebody waits for it; an
//! uncontended lock costs no system call.
//!
//! ```text
//!   31 … 8 the holder's generation | … | 2 for good | 1 waiters | 0 locked
//! ```
//!
//! A child of a fork is a generation of its own. What it finds locked by an earlier one is free:
//! the holder is not there.

use crate::sync::{AtomicU32, Ordering, SPINS, generation, spin_loop, wait, wake_one};

/// Somebody holds the gate.
const LOCKED: u32 = 1;
/// Somebody waits for it.
const WAITERS: u32 = 2;
/// Sequences never pass: guards, and every slot where sections are off.
pub(super) const FOR_GOOD: u32 = 4;

/// Where the generation begins; the highest bits of a very late one are left out.
const GENERATION: u32 = 8;

/// Takes the lock and returns the word as it was.
pub(crate) fn lock(gate: &AtomicU32) -> u32 {
    let generation = generation() << GENERATION;
    // Once parked, a closer cannot know whether others still wait: it says they do.
    let mut mark = LOCKED;
    let mut spins = 0;
    loop {
        // Relaxed: only the exchange counts.
        let word = gate.load(Ordering::Relaxed);
        if !is_locked(word) {
            let locked = word & FOR_GOOD | generation | mark;
            // Acquire: pairs with the release that opened the gate.
            let taken =
                gate.compare_exchange_weak(word, locked, Ordering::Acquire, Ordering::Relaxed);
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

/// Does a thread of this process hold the lock?
pub(crate) fn is_locked(word: u32) -> bool {
    word & LOCKED != 0 && !is_abandoned(word)
}

/// Did whoever held the lock stay behind in the parent of this process?
pub(crate) fn is_abandoned(word: u32) -> bool {
    word & LOCKED != 0 && word >> GENERATION != generation() << GENERATION >> GENERATION
}

/// Gives the lock back, and wakes one of those who wait.
pub(crate) fn unlock(gate: &AtomicU32) {
    // Release: pairs with the acquire load of the gate in every section, and in `lock`.
    let before = gate.fetch_and(FOR_GOOD, Ordering::Release);
    if before & WAITERS != 0 {
        wake_one(gate);
    }
}
