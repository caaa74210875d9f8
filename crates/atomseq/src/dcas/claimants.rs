//! Numbers for those who claim a lock: one for each call that is under way, whichever thread or handler makes it.

use crate::sync::{AtomicU64, Ordering};

const WORDS: usize = 16;

/// A bit for each number that is taken.
static TAKEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// A number that nobody else has while this lives.
pub(super) struct Claimant(u64);

impl Claimant {
    /// Waits while all 1,024 are taken. A thread that is ended while it has one keeps it.
    pub(super) fn enter() -> Claimant {
        // Threads begin at different words, by where their stacks are.
        let start = &raw const TAKEN as usize;
        let mut index = (&raw const start as usize >> 12) % WORDS;
        loop {
            for _ in 0..WORDS {
                // Relaxed: only the exchange counts.
                let word = TAKEN[index].load(Ordering::Relaxed);
                let free = (!word).trailing_zeros();
                if free < 64 {
                    // Acquire: pairs with the release in `drop`: what the last owner did with the number is over.
                    let before = TAKEN[index].fetch_or(1 << free, Ordering::Acquire);
                    if before & 1 << free == 0 {
                        return Claimant(64 * index as u64 + u64::from(free));
                    }
                }
                index = (index + 1) % WORDS;
            }
            std::thread::yield_now();
        }
    }

    /// Below 1,024.
    pub(super) fn number(&self) -> u64 {
        self.0
    }
}

impl Drop for Claimant {
    fn drop(&mut self) {
        let (index, bit) = ((self.0 / 64) as usize, self.0 % 64);
        // Release: pairs with the acquire in `enter`.
        TAKEN[index].fetch_and(!(1 << bit), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_different_and_come_back() {
        let some: Vec<Claimant> = (0..100).map(|_| Claimant::enter()).collect();
        let mut numbers: Vec<u64> = some.iter().map(Claimant::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 100);
        drop(some);
        for _ in 0..10_000 {
            assert!(Claimant::enter().number() < 1024);
        }
    }
}
