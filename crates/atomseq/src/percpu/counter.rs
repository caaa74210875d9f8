//! A counter with one word a CPU.
//!
//! The slow path adds to a word of its own with an atomic instruction, never to a sequence's word:
//! that would race with sequences. Draining moves a base line instead of the words, so a counter
//! needs no gate and is fast even where the kernel's fence cannot be trusted.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::area::{Area, WORDS};
use super::baseline;
use super::error::Error;
use crate::platform;

const VALUE: usize = WORDS;

crate::sequence! {
    /// Adds to this CPU's word; wraps around.
    unsafe fn add(slot: Slot, amount: Word) {
        let value = load(slot + VALUE);
        commit(slot + VALUE, value + amount);
    }
}

/// For the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[&add::MODEL];

/// A counter that many threads add to and few read: an `add` is one plain add to memory.
///
/// Scope `SameCpu`; wait-free; an addition costs no atomic instruction, on the slow path one. May
/// be used in signal handlers. Fast also where the kernel's fence cannot be trusted, for it never
/// closes a gate. Takes one slot a CPU; [the module](super) tells the rest.
///
/// A thread-local counter is cheaper to add to, and costs memory and reading time for every
/// thread; [`docs::performance`](crate::docs::performance) compares.
///
/// ```
/// use atomseq::percpu::Counter;
///
/// let requests = Counter::new();
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| (0..1000).for_each(|_| requests.increment()));
///     }
/// });
/// assert_eq!(requests.sum(), 4000);
/// ```
pub struct Counter {
    area: Area,
}

impl Counter {
    /// A counter at zero.
    ///
    /// # Panics
    ///
    /// If the operating system gives no memory; see [`try_new`](Counter::try_new).
    pub fn new() -> Counter {
        Counter::try_new().unwrap_or_else(|error| panic!("{error}"))
    }

    /// A counter at zero, or why there is none.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    pub fn try_new() -> Result<Counter, Error> {
        Ok(Counter {
            area: Area::ungated(0)?,
        })
    }

    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds; wraps around at 2^64 (at 2^32 on 32-bit targets).
    #[inline]
    pub fn add(&self, amount: u64) {
        // SAFETY: the only word it touches lies in the slot, and only this sequence changes it.
        if unsafe { add::on_cpu(self.area.slots(), amount as usize) }.is_err() {
            self.add_slowly(amount);
        }
    }

    #[cold]
    fn add_slowly(&self, amount: u64) {
        platform::register_this_thread();
        // Relaxed: a sum on its own.
        self.overflow()
            .fetch_add(amount as usize, Ordering::Relaxed);
    }

    /// What was added since the start, or since it was last taken.
    ///
    /// Includes every `add` that happened before; of those that happen meanwhile, some. Nothing
    /// that was taken is in it. Wait-free: one load for each possible CPU, no atomic
    /// read-modify-write; while others take, up to eight times that, and if each time one has
    /// taken, zero or what was added since, as far as it was seen.
    pub fn sum(&self) -> u64 {
        baseline::since(self.drained(), || self.total()) as u64
    }

    /// What each CPU added since the start, by CPU number. Additions on the slow path belong to no
    /// CPU and are left out.
    pub fn per_cpu(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        (0..self.area.cpus()).map(|cpu| (cpu, self.area.peek(cpu, 0) as u64))
    }

    /// Takes the sum and starts again at zero: every `add` is in exactly one sum taken.
    ///
    /// Lock-free; one atomic instruction a try and no fence, for it moves the zero instead of the
    /// words.
    pub fn take(&self) -> u64 {
        baseline::drain(self.drained(), || self.total()) as u64
    }

    fn total(&self) -> usize {
        let overflow = self.overflow().load(Ordering::Relaxed);
        (0..self.area.cpus())
            .map(|cpu| self.area.peek(cpu, 0))
            .fold(overflow, usize::wrapping_add)
    }

    /// Additions made on the slow path.
    fn overflow(&self) -> &AtomicUsize {
        self.area.word(-1, 0)
    }

    /// The total when it was last taken.
    fn drained(&self) -> &AtomicUsize {
        self.area.word(-2, 0)
    }
}

impl Default for Counter {
    fn default() -> Counter {
        Counter::new()
    }
}

impl std::fmt::Debug for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counter").field("sum", &self.sum()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_addition_is_in_the_sum_once() {
        let counter = Counter::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100_000).for_each(|_| counter.add(3)));
            }
        });
        assert_eq!(counter.sum(), 1_200_000);
        let by_cpu: u64 = counter.per_cpu().map(|(_, value)| value).sum();
        assert_eq!(
            by_cpu + counter.overflow().load(Ordering::Relaxed) as u64,
            1_200_000
        );
    }

    #[test]
    fn every_addition_is_drained_once() {
        let counter = Counter::new();
        let drained = std::thread::scope(|scope| {
            let drainers: Vec<_> = (0..2)
                .map(|_| scope.spawn(|| (0..1000).map(|_| counter.take()).sum::<u64>()))
                .collect();
            for _ in 0..2 {
                scope.spawn(|| (0..100_000).for_each(|_| counter.increment()));
            }
            drainers
                .into_iter()
                .map(|drainer| drainer.join().unwrap())
                .sum::<u64>()
        });
        assert_eq!(drained + counter.take(), 200_000);
        assert_eq!(counter.sum(), 0);
    }

    /// While its total is being read, others add and drain, `drains` times.
    fn read_while_others_drain(
        drains: usize,
        since: impl Fn(&AtomicUsize, &dyn Fn() -> usize) -> usize,
    ) -> usize {
        let (added, drained) = (AtomicUsize::new(1), AtomicUsize::new(0));
        let left = std::cell::Cell::new(drains);
        let total = || {
            if left.get() > 0 {
                left.set(left.get() - 1);
                assert_eq!(
                    baseline::drain(&drained, || added.load(Ordering::Relaxed)),
                    1
                );
                added.fetch_add(1, Ordering::Relaxed);
            }
            added.load(Ordering::Relaxed)
        };
        since(&drained, &total)
    }

    #[test]
    fn what_was_drained_is_in_no_sum() {
        for drains in 0..20 {
            let sum =
                read_while_others_drain(drains, |drained, total| baseline::since(drained, total));
            assert_eq!(sum, 1, "{drains} drains: there never was more than one");
        }
        let torn = read_while_others_drain(1, |drained, total| {
            let before = drained.load(Ordering::Acquire);
            total().wrapping_sub(before)
        });
        assert_eq!(torn, 2);
    }

    #[test]
    fn wraps_around() {
        let counter = Counter::new();
        counter.add(u64::MAX);
        counter.add(2);
        assert_eq!(counter.sum(), 1);
    }
}
