//! The lock in the word of a gate. Waiting threads park.
//!
//! The word holds whether the lock is held, in which process, and whether a thread waits. An
//! uncontended lock costs no system call.
//!
//! ```text
//!   31 … 8 the holder's generation | … | 2 permanent | 1 waiters | 0 locked
//! ```
//!
//! The child of a fork has a generation of its own. A lock that an earlier generation holds counts
//! as free: its holder does not exist in this process.

use crate::sync::{AtomicU32, Ordering, SPINS, generation, spin_loop, wait, wake_one};

/// A thread holds the lock.
const LOCKED: u32 = 1;
/// A thread may be waiting for the lock.
const WAITERS: u32 = 2;
/// Permanently closed: sequences never pass. Set for guards, and for every slot where sections are
/// unavailable.
pub(super) const FOR_GOOD: u32 = 4;

/// The shift of the generation. The highest bits of a large generation are cut off.
const GENERATION: u32 = 8;

/// Acquires the lock, and returns the word from before. Spins, then parks while another thread
/// holds it.
pub(crate) fn lock(gate: &AtomicU32) -> u32 {
    let generation = generation() << GENERATION;
    // After it has parked, a thread cannot know whether others still wait, so it keeps `WAITERS`
    // set.
    let mut mark = LOCKED;
    let mut spins = 0;
    loop {
        // Relaxed: only a hint; the exchange below decides.
        let word = gate.load(Ordering::Relaxed);
        if !is_locked(word) {
            let locked = word & FOR_GOOD | generation | mark;
            // Acquire: pairs with the release in `unlock`. On failure Relaxed: the loop reads the
            // word again.
            let taken =
                gate.compare_exchange_weak(word, locked, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return word;
            }
        } else if spins < SPINS {
            spins += 1;
            spin_loop();
        } else {
            // Relaxed: the bit orders nothing, and `wait` compares the word again.
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

/// Acquires the lock and returns the word from before; `None` if another thread holds it as long as
/// this one spins.
pub(crate) fn try_lock(gate: &AtomicU32) -> Option<u32> {
    (0..SPINS).find_map(|_| {
        // Relaxed: only a hint; the exchange below decides.
        let word = gate.load(Ordering::Relaxed);
        if is_locked(word) {
            spin_loop();
            return None;
        }
        let locked = word & FOR_GOOD | generation() << GENERATION | LOCKED;
        // Acquire: pairs with the release in `unlock`. On failure Relaxed: the loop reads the word
        // again.
        gate.compare_exchange(word, locked, Ordering::Acquire, Ordering::Relaxed)
            .ok()
    })
}

/// Returns whether a thread of this process holds the lock.
pub(crate) fn is_locked(word: u32) -> bool {
    word & LOCKED != 0 && !is_abandoned(word)
}

/// Returns whether the lock was held in the parent when this process was forked.
pub(crate) fn is_abandoned(word: u32) -> bool {
    word & LOCKED != 0 && word >> GENERATION != generation() << GENERATION >> GENERATION
}

/// Releases the lock, and wakes one waiting thread.
pub(crate) fn unlock(gate: &AtomicU32) {
    // Release: pairs with the acquire load of the gate in every sequence, and with the acquire in
    // `lock`.
    let before = gate.fetch_and(FOR_GOOD, Ordering::Release);
    if before & WAITERS != 0 {
        wake_one(gate);
    }
}
