//! Numbers for those who claim a lock: one for each call that is under way, whichever thread or
//! handler makes it.
//!
//! A number knows the thread that has it, so that one which has ended takes none along: when no
//! number is free, those of threads that are gone are. What such a thread has left in a lock is a
//! claim as any other to those who meet it, who replace it by one of their own. (In a child that a
//! handler has forked, the call that the handler interrupted goes on with a number that seems to be
//! left; it takes all the others to be in use for somebody to mistake it.)

use crate::platform;
use crate::sync::{AtomicU64, Ordering};

const NUMBERS: usize = 1024;

/// Whose each number is: how often it was taken, in the upper half, and the thread that has it, or
/// 0.
static OWNERS: [AtomicU64; NUMBERS] = [const { AtomicU64::new(0) }; NUMBERS];

const THREAD: u64 = u32::MAX as u64;

/// A number that no other call has while this lives.
pub(super) struct Claimant {
    number: usize,
    taken: u64,
}

impl Claimant {
    /// Waits while all 1,024 are taken by calls of threads that have not ended, and that may be
    /// stopped.
    pub(super) fn enter() -> Claimant {
        // Threads begin at different numbers, by where their stacks are.
        let start = &raw const OWNERS as usize;
        let start = &raw const start as usize >> 12;
        let own = platform::thread_id();
        loop {
            let free = |owner: u64| owner & THREAD == 0;
            let left = |owner: u64| owner & THREAD != 0 && platform::is_gone(owner as u32);
            let taken = take(start, own, free).or_else(|| take(start, own, left));
            if let Some(taken) = taken {
                return taken;
            }
            std::thread::yield_now();
        }
    }

    /// Below 1,024.
    pub(super) fn number(&self) -> u64 {
        self.number as u64
    }
}

/// The first number, from that one on, whose owner is as it should be.
fn take(start: usize, own: u32, may: impl Fn(u64) -> bool) -> Option<Claimant> {
    let mut from_start = (0..NUMBERS).map(|step| start.wrapping_add(step) % NUMBERS);
    from_start.find_map(|number| {
        // Relaxed: only the exchange counts.
        let before = OWNERS[number].load(Ordering::Relaxed);
        let taken = (before & !THREAD).wrapping_add(THREAD + 1) | u64::from(own);
        // Acquire: pairs with the release in `drop`: what the last owner did with the number is
        // over.
        let order = (Ordering::Acquire, Ordering::Relaxed);
        let exchange = || OWNERS[number].compare_exchange(before, taken, order.0, order.1);
        (may(before) && exchange().is_ok()).then(|| Claimant { number, taken })
    })
}

impl Drop for Claimant {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `take`.
        OWNERS[self.number].store(self.taken & !THREAD, Ordering::Release);
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

    /// As many as there are numbers, and more: each would be lost for good, and then everybody
    /// would wait for ever.
    #[test]
    #[cfg(atomseq_sections)]
    fn threads_that_have_ended_take_no_number_along() {
        use std::sync::mpsc::channel;
        use std::time::Duration;

        let (tell, outcome) = channel();
        std::thread::spawn(move || {
            for _ in 0..20 {
                let ending = std::thread::spawn(|| {
                    (0..NUMBERS / 16).for_each(|_| std::mem::forget(Claimant::enter()));
                });
                ending.join().unwrap();
            }
            let kept = [Claimant::enter(), Claimant::enter()];
            tell.send(kept[0].number() != kept[1].number()).unwrap();
        });
        let different = outcome.recv_timeout(Duration::from_secs(60));
        assert_eq!(different, Ok(true));
    }
}
