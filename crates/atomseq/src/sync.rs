//! Atomics and waiting under one name. The model checker in `verify/` compiles the files that
//! import this a second time, with atomics and waiting of its own in this place.

use std::time::Duration;

use crate::clock;

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

#[allow(unused_imports, reason = "portable builds do not watch forks")]
pub(crate) use crate::platform::{
    generation, wait, wait_at_most, wait_briefly, wake_all, wake_many, wake_one,
};

/// Two words side by side, for a double-width compare-and-swap.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct Pair {
    first: AtomicU64,
    second: AtomicU64,
}

// SAFETY: two descriptors, one after the other, and nothing else.
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

    /// Changes both words if both are as expected; says whether it has. Acquires what made them so,
    /// and releases what came before.
    ///
    /// # Safety
    ///
    /// The processor has the instruction ([`has_double_width`](crate::platform::has_double_width)).
    #[inline(always)]
    pub unsafe fn exchange(&self, expected: (u64, u64), new: (u64, u64)) -> bool {
        let words = (&raw const *self).cast_mut().cast();
        // SAFETY: two atomic words, aligned to 16 bytes; the instruction is there, as the caller
        // promises.
        unsafe { crate::platform::compare_exchange_double(words, expected, new) }.is_ok()
    }
}

/// Tells the calling thread from the others of its process, as long as it lives: an even number,
/// not 0. Async-signal-safe.
pub(crate) fn this_thread() -> u64 {
    let own: *const AtomicU32 = crate::__thread_storage!(AtomicU32, AtomicU32::new(0));
    own.addr() as u64
}

/// How often a thread looks again before it parks.
pub(crate) const SPINS: usize = 100;

/// A thread that did not run meanwhile has not waited.
pub(crate) const FEWEST_SLEEPS: u32 = 4;

/// A wait that ends: sleeps of a millisecond at most, until some milliseconds have passed, and some
/// sleeps. (Handlers and wake-ups end sleeps early, a busy machine late.)
pub(crate) struct Patience {
    milliseconds: u32,
    sleeps: u32,
    /// The time at the first sleep. `None` where the system refuses to tell it: then sleeps count
    /// alone.
    since: Option<Duration>,
}

impl Patience {
    /// Patience for so long, from the first sleep on.
    pub fn new(milliseconds: u32) -> Patience {
        Patience {
            milliseconds,
            sleeps: 0,
            since: None,
        }
    }

    /// Sleeps for a millisecond at most while the word holds `expected`; false, without having
    /// slept, when it is over.
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
        now.saturating_sub(since) >= time && self.sleeps >= self.milliseconds.min(FEWEST_SLEEPS)
    }
}

/// How often a waiter lets others get on with it before it sleeps.
static PAUSES: AtomicU32 = AtomicU32::new(SPINNING + 7);
/// In so many of these rounds it spins, twice as long each time: 127 pauses in all.
const SPINNING: u32 = 7;

/// How many rounds of that there are.
pub(crate) fn pauses() -> u32 {
    // Relaxed: any number will do.
    PAUSES.load(Ordering::Relaxed)
}

/// For tests of what comes after them. Returns how many there were.
#[cfg(feature = "unstable-internals")]
pub fn set_pauses(rounds: u32) -> u32 {
    // Relaxed: as above.
    PAUSES.swap(rounds, Ordering::Relaxed)
}

/// What a waiter does in the round of that number: it spins, and from some round on yields the
/// processor, for whoever it waits for may wait for that.
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

    /// How often a wait of so long sleeps if each sleep ends at once, as handlers end them.
    fn sleeps(milliseconds: u32) -> u32 {
        let word = AtomicU32::new(0);
        let mut patience = Patience::new(milliseconds);
        (0..).find(|_| !patience.sleep(&word, 1)).expect("an end")
    }

    #[test]
    fn sleeps_that_end_early_do_not_shorten_a_wait() {
        let start = Instant::now();
        assert!(sleeps(20) >= FEWEST_SLEEPS);
        assert!(start.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn without_a_clock_sleeps_count() {
        assert_eq!(refusal::during(|| sleeps(20)), 20);
    }
}
