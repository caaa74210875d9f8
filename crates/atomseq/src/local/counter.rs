//! A counter in one word.

use std::fmt;

use super::scope::Interruptible;
use super::word::{SequenceWord, address};
use crate::scope::SameThread;

crate::sequence! {
    /// Adds to the word; wraps around.
    unsafe fn add(counter: Word, amount: Word) {
        let value = load(counter);
        commit(counter, value + amount);
    }

    /// Takes what is there.
    unsafe fn drain(counter: Word) -> Word {
        let value = load(counter);
        commit(counter, 0);
        value
    }
}

/// For the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[&add::MODEL, &drain::MODEL];

/// A counter that a thread and its signal handlers add to.
///
/// Scope [`SameThread`]; no operation waits; an addition costs no atomic instruction: on x86-64 it
/// is one `add` to memory. One word; [the module](super) tells the rest.
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

// SAFETY: every operation is one load or one sequence.
unsafe impl Interruptible for Counter {}

impl Counter {
    /// A counter at zero.
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

    /// Adds; wraps around at 2^64 (at 2^32 on 32-bit targets).
    #[inline]
    pub fn add(&self, amount: u64) {
        // SAFETY: the word is this counter's, and only this thread and its handlers have it.
        unsafe { add::restarting(address(self), amount as usize) }
    }

    /// What was added since the start, or since it was last taken: one load.
    #[inline]
    pub fn sum(&self) -> u64 {
        self.value.word() as u64
    }

    /// Takes the sum and starts again at zero: every `add` is in exactly one sum taken.
    #[inline]
    pub fn take(&self) -> u64 {
        // SAFETY: as in `add`.
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
    fn every_addition_is_drained_once() {
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
    fn wraps_around() {
        let counter = Counter::new();
        counter.add(u64::MAX);
        counter.add(2);
        assert_eq!(counter.sum(), 1);
    }
}
