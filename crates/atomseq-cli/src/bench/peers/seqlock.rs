//! A sequence lock: two words whose writer makes a number odd while it changes them. Readers never
//! store; a writer that is preempted keeps everybody waiting.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crossbeam_utils::CachePadded;

use crate::bench::experiments::Pair;

/// Two words whose writer makes a number odd.
#[derive(Default)]
pub struct SequenceLock {
    sequence: CachePadded<AtomicU64>,
    words: [CachePadded<AtomicU64>; 2],
}

impl Pair for SequenceLock {
    type Hand = ();

    fn hand(&self) {}

    #[inline(always)]
    fn add(&self, _hand: &mut (), amount: u64) {
        loop {
            // Acquire: pairs with the Release of the last writer.
            let seen = self.sequence.load(Ordering::Acquire);
            if seen.is_multiple_of(2) {
                let taken = self.sequence.compare_exchange_weak(
                    seen,
                    seen + 1,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                if taken.is_ok() {
                    // Release: pairs with a reader's acquire fence.
                    fence(Ordering::Release);
                    for word in &self.words {
                        word.store(word.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
                    }
                    self.sequence.store(seen + 2, Ordering::Release);
                    return;
                }
            }
            spin_loop();
        }
    }

    fn both(&self) -> (u64, u64) {
        let [a, b] = [0, 1].map(|index: usize| self.words[index].load(Ordering::Relaxed));
        (a, b)
    }
}
