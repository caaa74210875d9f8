//! Atomics and waiting under one name. The model checker in `verify/` recompiles the files that
//! import this, with its own atomics and waiting in this module's place.

use std::time::Duration;

use crate::clock;

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

#[allow(unused_imports, reason = "portable builds do not watch forks")]
pub(crate) use crate::platform::{
    generation, wait, wait_at_most, wait_briefly, wake_all, wake_many, wake_one,
};

/// Two adjacent words for a double-width compare-and-swap.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct Pair {
    first: AtomicU64,
    second: AtomicU64,
}

// SAFETY: it consists of two atomic words, for which zeros are always valid.
unsafe impl crate::type_stable::Descriptor for Pair {}

impl Pair {
    #[inline(always)]
    pub fn first(&self) -> &AtomicU64 {
        &self.first
    }

    #[inline(always)]
    pub fn second(&self) -> &AtomicU64 {
        &self.second
    }

    /// Replaces both words if both are as expected, and returns whether it did. The operation is an
    /// Acquire and a Release; it pairs with other exchanges and with Acquire loads and Release
    /// stores of the words.
    ///
    /// # Safety
    ///
    /// The processor must have the instruction
    /// ([`has_double_width`](crate::platform::has_double_width)).
    #[inline(always)]
    pub unsafe fn exchange(&self, expected: (u64, u64), new: (u64, u64)) -> bool {
        let words = (&raw const *self).cast_mut().cast();
        // SAFETY: `self` is two atomic words, aligned to 16 bytes. By the contract the processor
        // has the instruction.
        unsafe { crate::platform::compare_exchange_double(words, expected, new) }.is_ok()
    }
}

/// Returns a number that identifies the calling thread within its process while it lives: even, and
/// not 0. Async-signal-safe.
pub(crate) fn this_thread() -> u64 {
    let own: *const AtomicU32 = crate::__thread_storage!(AtomicU32, AtomicU32::new(0));
    own.addr() as u64
}

/// The number of spins before a thread parks.
pub(crate) const SPINS: usize = 100;

/// The min number of sleeps in a wait. A thread that did not run meanwhile has not really waited.
pub(crate) const MIN_SLEEPS: u32 = 4;

/// A bounded wait: sleeps of at most a millisecond, until the given time has passed and a minimum
/// of sleeps has taken place. (Handlers and wake-ups end sleeps early; a busy machine ends them
/// late.)
pub(crate) struct Patience {
    milliseconds: u32,
    sleeps: u32,
    /// The time of the first sleep. `None` if the system refuses the time; then only sleeps count.
    since: Option<Duration>,
}

impl Patience {
    /// Creates a wait of so many milliseconds, counted from the first sleep.
    pub fn new(milliseconds: u32) -> Patience {
        Patience {
            milliseconds,
            sleeps: 0,
            since: None,
        }
    }

    /// Sleeps for at most a millisecond while the word equals `expected`. Returns `false`, without
    /// sleeping, once the wait is over.
    pub fn sleep(&mut self, word: &AtomicU32, expected: u32) -> bool {
        if self.sleeps == 0 {
            self.since = clock::now();
        }
        if self.is_over() {
            return false;
        }
        self.sleeps = self.sleeps.saturating_add(1);
        wait_briefly(word, expected);
        true
    }

    fn is_over(&self) -> bool {
        let Some((now, since)) = clock::now().zip(self.since) else {
            return self.sleeps >= self.milliseconds;
        };
        let time = Duration::from_millis(self.milliseconds.into());
        now.saturating_sub(since) >= time && self.sleeps >= self.milliseconds.min(MIN_SLEEPS)
    }
}

/// The number of rounds that a waiter pauses before it sleeps.
static PAUSES: AtomicU32 = AtomicU32::new(SPINNING + 7);
/// The number of these rounds that spin, each twice as long as the one before: 127 spins in all.
const SPINNING: u32 = 7;

/// Returns the number of rounds.
pub(crate) fn pauses() -> u32 {
    // Relaxed: any value is acceptable.
    PAUSES.load(Ordering::Relaxed)
}

/// Sets the number of rounds, for tests of what follows them. Returns the previous number.
#[cfg(feature = "unstable-internals")]
pub fn set_pauses(rounds: u32) -> u32 {
    // Relaxed: any value is acceptable.
    PAUSES.swap(rounds, Ordering::Relaxed)
}

/// Pauses a waiter in its given round: spins in early rounds, and yields the processor in later
/// ones, since the awaited thread may need it.
pub(crate) fn pause(round: u32) {
    if round < SPINNING {
        (0..1 << round).for_each(|_| spin_loop());
    } else {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::refusal;
    use std::time::Instant;

    /// Returns how many sleeps such a wait takes if each ends at once, as signal handlers may
    /// cause.
    fn sleeps(milliseconds: u32) -> u32 {
        let word = AtomicU32::new(0);
        let mut patience = Patience::new(milliseconds);
        (0..).find(|_| !patience.sleep(&word, 1)).expect("an end")
    }

    #[test]
    fn sleeps_that_end_early_do_not_shorten_a_wait() {
        let start = Instant::now();
        assert!(sleeps(20) >= MIN_SLEEPS);
        assert!(start.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn without_a_clock_sleeps_count() {
        assert_eq!(refusal::during(|| sleeps(20)), 20);
    }
}
