//! Numbers for calls that revoke a lock. Each running call has its own, whichever thread or handler
//! makes it; the number is the id in its claim.
//!
//! A number records the thread that has it, so that exited threads use none up: when no number is
//! free, those of exited threads are taken. A claim that such a thread has left in a lock is
//! replaced by the next revoker's, like any other claim. After a `fork` in a signal handler, the
//! interrupted call continues in the child with a number that belongs to a thread that does not
//! exist there. It would be confused with another call only if all other numbers were in use.

use crate::platform;
use crate::sync::{AtomicU64, Ordering};

const NUMBERS: usize = 1024;

/// The owner of each number: in the upper half how many times it was taken, in the lower half the
/// thread id of the owner, or 0.
static OWNERS: [AtomicU64; NUMBERS] = [const { AtomicU64::new(0) }; NUMBERS];

const THREAD: u64 = u32::MAX as u64;

/// A running call that revokes a lock, with a number that no other running call has.
pub(super) struct Revoker {
    number: usize,
    taken: u64,
}

impl Revoker {
    /// Takes a number. Waits while all 1,024 are taken by calls of live threads, which may be
    /// stopped.
    pub(super) fn enter() -> Revoker {
        // The stack address spreads threads over the numbers.
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

    /// Returns the number, which is below 1,024.
    pub(super) fn number(&self) -> u64 {
        self.number as u64
    }
}

/// Takes the first number from `start` on whose owner word satisfies `may`.
fn take(start: usize, own: u32, may: impl Fn(u64) -> bool) -> Option<Revoker> {
    let mut from_start = (0..NUMBERS).map(|step| start.wrapping_add(step) % NUMBERS);
    from_start.find_map(|number| {
        // Relaxed: the compare-and-swap below verifies the value.
        let before = OWNERS[number].load(Ordering::Relaxed);
        let taken = (before & !THREAD).wrapping_add(THREAD + 1) | u64::from(own);
        // Acquire: pairs with the release in `drop`, so the previous owner's use of the number is
        // over.
        let order = (Ordering::Acquire, Ordering::Relaxed);
        let exchange = || OWNERS[number].compare_exchange(before, taken, order.0, order.1);
        (may(before) && exchange().is_ok()).then(|| Revoker { number, taken })
    })
}

impl Drop for Revoker {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `take`.
        OWNERS[self.number].store(self.taken & !THREAD, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_distinct_and_reused() {
        let some: Vec<Revoker> = (0..100).map(|_| Revoker::enter()).collect();
        let mut numbers: Vec<u64> = some.iter().map(Revoker::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 100);
        drop(some);
        for _ in 0..10_000 {
            assert!(Revoker::enter().number() < 1024);
        }
    }

    /// Threads exit with more numbers than there are. If each were lost, the last call would wait
    /// indefinitely.
    #[test]
    #[cfg(atomseq_sections)]
    fn exited_threads_use_up_no_number() {
        use std::sync::mpsc::channel;
        use std::time::Duration;

        let (report, reported) = channel();
        std::thread::spawn(move || {
            for _ in 0..20 {
                let ending = std::thread::spawn(|| {
                    (0..NUMBERS / 16).for_each(|_| std::mem::forget(Revoker::enter()));
                });
                ending.join().unwrap();
            }
            let kept = [Revoker::enter(), Revoker::enter()];
            report.send(kept[0].number() != kept[1].number()).unwrap();
        });
        let different = reported.recv_timeout(Duration::from_secs(60));
        assert_eq!(different, Ok(true));
    }
}
