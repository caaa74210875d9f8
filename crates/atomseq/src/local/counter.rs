//! A counter of one word.

use std::fmt;

use super::scope::Interruptible;
use super::word::{SequenceWord, address};
use crate::scope::SameThread;

crate::sequence! {
    /// Adds to the word, wrapping around.
    unsafe fn add(counter: Word, amount: Word) {
        let value = load(counter);
        commit(counter, value + amount);
    }

    /// Sets the word to zero, and returns its old value.
    unsafe fn drain(counter: Word) -> Word {
        let value = load(counter);
        commit(counter, 0);
        value
    }
}

/// The sequences of this file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[&add::MODEL, &drain::MODEL];

/// A counter that a thread and its signal handlers add to.
///
/// Scope [`SameThread`]. No operation waits. An addition costs no atomic instruction: on x86-64 it
/// is one `add` to memory. A counter takes eight bytes. See [the module](super) for what all of
/// these structures share.
///
/// ```
/// use atomseq::local::Counter;
///
/// atomseq::local::per_thread! {
///     static ALARMS: Counter = Counter::new();
/// }
///
/// ALARMS.with(|alarms| alarms.increment());
/// assert_eq!(ALARMS.with(|alarms| alarms.take()), 1);
/// ```
#[repr(C)]
pub struct Counter {
    value: SequenceWord,
    scope: SameThread,
}

// SAFETY: every operation is one load or one sequence, so no handler finds it half done.
unsafe impl Interruptible for Counter {}

impl Counter {
    /// Creates a counter at zero.
    pub const fn new() -> Counter {
        Counter {
            value: SequenceWord::zero(),
            scope: SameThread::new(),
        }
    }

    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `amount`, wrapping around at 2^64 (at 2^32 on 32-bit targets).
    #[inline]
    pub fn add(&self, amount: u64) {
        // SAFETY: the address of this counter's word, which lives through the call. The counter is
        // not `Sync`, so only this thread and its handlers access it.
        unsafe { add::restarting(address(self), amount as usize) }
    }

    /// Returns the sum since the start, or since the last [`take`](Counter::take). Costs one load.
    #[inline]
    pub fn sum(&self) -> u64 {
        self.value.word() as u64
    }

    /// Returns the sum and starts again at zero. Every addition is in exactly one of the sums
    /// taken.
    #[inline]
    pub fn take(&self) -> u64 {
        // SAFETY: the address of this counter's word, which lives through the call. The counter is
        // not `Sync`, so only this thread and its handlers access it.
        unsafe { drain::restarting(address(self)) as u64 }
    }
}

impl Default for Counter {
    fn default() -> Counter {
        Counter::new()
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter")
            .field("sum", &self.sum())
            .field("scope", &self.scope)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_returns_every_addition_once() {
        let counter = Counter::new();
        let mut drained = 0;
        for amount in 0..100 {
            counter.add(amount);
            counter.increment();
            if amount % 7 == 0 {
                drained += counter.take();
            }
        }
        assert_eq!(drained + counter.sum(), 99 * 100 / 2 + 100);
        assert_eq!(drained + counter.take(), 99 * 100 / 2 + 100);
        assert_eq!(counter.sum(), 0);
    }

    #[test]
    fn an_addition_wraps_around() {
        let counter = Counter::new();
        counter.add(u64::MAX);
        counter.add(2);
        assert_eq!(counter.sum(), 1);
    }
}
