//! Waiting in an operation that another thread's has forestalled.

use crate::sync::spin_loop;

/// A thread pauses once at first, four times as long each further time, and at most 2^9 times in a
/// row.
///
/// A thread that succeeds has the cache lines; while the others are away it succeeds again and
/// again, at the speed of one thread alone. Measured with four producers and four consumers on four
/// CPUs of an AMD EPYC, a queue of 1,024 places and threads that spin: with at most 2^6 pauses an
/// element took 1.5 times as long as with 2^9. The longest wait is some 15 µs there; nothing
/// sleeps. Where the pauses only doubled, with two producers and two consumers, a queue of 1,024
/// took 1.6 to 1.9 times as long, a stack of 16 1.5 times (medians of seven interleaved runs); with
/// one and one there was no difference.
pub(crate) struct Backoff(u32);

const LONGEST: u32 = 9;

impl Backoff {
    pub fn new() -> Backoff {
        Backoff(0)
    }

    /// For a container of so many values, whose operations all change one word: the thread that has
    /// the word's line gets time for part of the values, an eighth as many pauses, at most 128.
    ///
    /// Measured on an AMD EPYC, a stack of 1,024 in flow between two CPUs, beside at most 32 pauses
    /// and no turns (see [`shadow`](super::shadow)), three interleaved runs at two times of day: an
    /// element took 24 to 26 ns instead of 33, and 49 to 67 instead of 117 to 151. Stacks of 16: no
    /// difference with two threads; with four, 125 to 136 ns instead of 142 to 230.
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
