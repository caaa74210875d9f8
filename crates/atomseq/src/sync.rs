//! Atomics and waiting under one name. The model checker in `verify/` compiles the files that import
//! this a second time, with atomics and waiting of its own in this place.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

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
unsafe impl crate::memory::Descriptor for Pair {}

impl Pair {
    #[inline(always)]
    pub fn first(&self) -> &AtomicU64 {
        &self.first
    }

    #[inline(always)]
    pub fn second(&self) -> &AtomicU64 {
        &self.second
    }

    /// Changes both words if both are as expected; says whether it has. Acquires what made them so, and releases what came before.
    ///
    /// # Safety
    ///
    /// The processor has the instruction ([`has_double_width`](crate::platform::has_double_width)).
    #[inline(always)]
    pub unsafe fn exchange(&self, expected: (u64, u64), new: (u64, u64)) -> bool {
        let words = (&raw const *self).cast_mut().cast();
        // SAFETY: two atomic words, aligned to 16 bytes; the instruction is there, as the caller promises.
        unsafe { crate::platform::compare_exchange_double(words, expected, new) }.is_ok()
    }
}

/// How often a thread looks again before it parks.
pub(crate) const SPINS: usize = 100;

/// How often a closer of a gate waits for a fork, for a millisecond each.
#[allow(dead_code, reason = "portable builds do not watch forks")]
pub(crate) const PATIENCE: u32 = 4;

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
pub fn set_pauses(rounds: u32) -> u32 {
    // Relaxed: as above.
    PAUSES.swap(rounds, Ordering::Relaxed)
}

/// What a waiter does in the round of that number: it spins, and from some round on yields the processor, for whoever it waits for
/// may wait for that.
pub(crate) fn pause(round: u32) {
    if round < SPINNING {
        (0..1 << round).for_each(|_| spin_loop());
    } else {
        std::thread::yield_now();
    }
}
