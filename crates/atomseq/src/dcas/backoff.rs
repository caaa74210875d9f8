//! Backing off after a compare-and-swap that lost to another thread's.

use crate::sync::spin_loop;

/// Pauses in an operation that retries: one pause at first, four times as many after each further
/// failure, and at most 2^9.
///
/// A thread that succeeds has the cache lines. While the other threads pause, it succeeds
/// repeatedly, at the speed of one thread alone. Measured with four producers and four consumers on
/// four CPUs of an AMD EPYC, a queue of capacity 1,024, and threads that spin: with a maximum of
/// 2^6 pauses an element took 1.5 times as long as with 2^9. The longest wait is about 15 µs there;
/// no thread sleeps. If the pauses only doubled, with two producers and two consumers, a queue of
/// 1,024 took 1.6 to 1.9 times as long, and a stack of 16 took 1.5 times as long (medians of seven
/// interleaved runs). With one producer and one consumer there was no difference.
pub(crate) struct Backoff(u32);

/// The binary logarithm of the maximum number of pauses.
const LONGEST: u32 = 9;

impl Backoff {
    pub fn new() -> Backoff {
        Backoff(0)
    }

    /// Returns the pauses for a container of this capacity whose operations all change one word.
    /// The first wait is an eighth of the capacity, at most 128 pauses, so that the thread that has
    /// the word's cache line moves several values in that time.
    ///
    /// Measured on an AMD EPYC, a stack of 1,024 in flow between two CPUs, against at most 32
    /// pauses and no turns (see [`shadow`](super::shadow)), three interleaved runs at two times of
    /// day: an element took 24 to 26 ns instead of 33, and 49 to 67 ns instead of 117 to 151.
    /// Stacks of 16: no difference with two threads; with four, 125 to 136 ns instead of 142 to
    /// 230.
    pub fn of_container(capacity: usize) -> Backoff {
        const WITHOUT: u32 = 3;
        let doublings = capacity.checked_ilog2().unwrap_or(0);
        Backoff(doublings.saturating_sub(WITHOUT).min(7))
    }

    pub fn spin(&mut self) {
        (0..1 << self.0).for_each(|_| spin_loop());
        self.0 = LONGEST.min(self.0 + 2);
    }
}
