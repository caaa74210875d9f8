//! A test-and-test-and-set lock that only spins, as a kernel's does, where holders are not
//! preempted: a program's are, and then everybody spins until the holder's next turn.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::bench::experiments::Pair;

/// Two words under the lock.
#[derive(Default)]
pub struct Spinning {
    held: AtomicBool,
    words: [CachePadded<AtomicU64>; 2],
}

impl Pair for Spinning {
    type Hand = ();

    fn hand(&self) {}

    #[inline(always)]
    fn add(&self, _hand: &mut (), amount: u64) {
        // Acquire: pairs with the Release of whoever held it before.
        while self.held.swap(true, Ordering::Acquire) {
            while self.held.load(Ordering::Relaxed) {
                spin_loop();
            }
        }
        for word in &self.words {
            word.store(word.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
        }
        self.held.store(false, Ordering::Release);
    }

    fn both(&self) -> (u64, u64) {
        let [a, b] = [0, 1].map(|index: usize| self.words[index].load(Ordering::Relaxed));
        (a, b)
    }
}
