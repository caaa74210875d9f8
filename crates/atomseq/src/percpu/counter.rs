//! A counter with one word per CPU.
//!
//! The slow path adds to a separate word with an atomic instruction, because an atomic instruction
//! on a sequence's word would race with the sequence. [`Counter::take`] moves a
//! baseline instead of resetting the words. A counter therefore needs no gate, and is fast even
//! where the kernel's rseq fence is unreliable. Neither of these two words is in the area, so a
//! counter counts even where no area can be had.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::area::WORDS;
use super::baseline;
use super::error::Error;
use super::lazy::Lazy;
use crate::platform;

pub(super) const VALUE: usize = WORDS;

crate::sequence! {
    /// Adds to this CPU's word, wrapping around.
    pub(super) unsafe fn add(slot: Slot, amount: Word) {
        let value = load(slot + VALUE);
        commit(slot + VALUE, value + amount);
    }
}

/// The sequences of this file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[&add::MODEL];

/// A counter for many adding threads and few readers: an addition is one plain add to memory.
///
/// Scope `SameCpu`. Wait-free once its memory is mapped, but [`take`](Counter::take), which is
/// lock-free. An addition costs no atomic instruction on the fast path and one on the slow path;
/// one that asks for the memory is lock-free and costs more. Every operation may be called in a
/// signal handler. A counter never closes a gate, so it is also fast where the kernel's rseq fence
/// is unreliable. See [the module](super) for what all per-CPU structures share.
///
/// The first addition maps one slot (128 bytes) per CPU. If the system refuses that memory, or
/// another thread is mapping some, forking or starting atomseq at that moment, the counter adds to
/// one word that all CPUs share, and the next addition asks for the memory again. It does not wait
/// for that thread. (The kernel may make the system call for memory wait, as it makes any; and the
/// first call of all [starts atomseq](crate::status()).) [`prepare`](Counter::prepare) maps the
/// memory earlier: call it before handlers are installed that may be the first to add. [`Counters`]
/// holds many counters in 8 bytes per CPU each.
///
/// [`Counters`]: super::Counters
///
/// A thread-local counter is cheaper to add to, but takes memory and reading time for every thread;
/// [`docs::performance`](crate::docs::performance) compares the two.
///
/// ```
/// use atomseq::percpu::Counter;
///
/// static REQUESTS: Counter = Counter::new();
///
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| (0..1000).for_each(|_| REQUESTS.increment()));
///     }
/// });
/// assert_eq!(REQUESTS.sum(), 4000);
/// ```
pub struct Counter {
    area: Lazy,
    /// The sum of the additions made on the slow path.
    overflow: AtomicUsize,
    /// The baseline: the total at the last `take`.
    drained: AtomicUsize,
}

impl Counter {
    /// Creates a counter at zero. The first addition maps its memory.
    pub const fn new() -> Counter {
        Counter {
            area: Lazy::with_bulk(0),
            overflow: AtomicUsize::new(0),
            drained: AtomicUsize::new(0),
        }
    }

    /// Creates a counter at zero, and maps its memory.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if the operating system refuses the memory, [`Error::StartingUp`]
    /// during start-up.
    pub fn try_new() -> Result<Counter, Error> {
        let counter = Counter::new();
        counter.prepare()?;
        Ok(counter)
    }

    /// Maps the counter's memory, unless that has been done, and starts atomseq if it has not been
    /// started.
    ///
    /// The first addition does the same. In a signal handler that is safe only if atomseq has been
    /// started, because start-up may allocate.
    ///
    /// # Errors
    ///
    /// Those of [`try_new`](Counter::try_new). The counter remains usable, on the slow path.
    pub fn prepare(&self) -> Result<(), Error> {
        self.area.map()
    }

    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `amount`, wrapping around at 2^64 (at 2^32 on 32-bit targets).
    #[inline]
    pub fn add(&self, amount: u64) {
        // SAFETY: the sequence accesses only word 0 of a CPU's slot. The area outlives the call,
        // and only this sequence writes that word.
        let add = |slots| unsafe { add::on_cpu(slots, amount as usize) }.is_ok();
        if !self.area.slots().is_some_and(add) {
            self.add_slowly(amount);
        }
    }

    #[cold]
    fn add_slowly(&self, amount: u64) {
        // Without memory this counts in the shared word, and the next addition asks again.
        _ = self.area.map_at_once();
        platform::register_this_thread();
        // Relaxed: the word is an independent sum that orders nothing.
        self.overflow.fetch_add(amount as usize, Ordering::Relaxed);
    }

    /// Returns the sum of all additions since the start, or since the last [`take`](Counter::take).
    ///
    /// The sum includes every addition that happened before the call. It may include additions that
    /// happen during the call, but never one that a `take` has returned.
    ///
    /// Wait-free: one load per possible CPU and no atomic read-modify-write. While other threads
    /// call `take`, the words are read up to 32 times. If a `take` interferes with each reading,
    /// the result is what this call saw of the additions since the last one, or zero.
    pub fn sum(&self) -> u64 {
        baseline::since(&self.drained, || self.total()) as u64
    }

    /// Returns an iterator over the CPU numbers and what each CPU added since the start. Additions
    /// on the slow path belong to no CPU and are left out, and [`take`](Counter::take) has no
    /// effect.
    pub fn per_cpu(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        (0..self.area.cpus()).map(|cpu| (cpu, self.on_cpu(cpu) as u64))
    }

    /// Returns the sum and starts again at zero. Every addition is in exactly one of the sums
    /// taken.
    ///
    /// Lock-free. Costs one atomic instruction per attempt and no fence, because it moves the
    /// baseline and leaves the words alone.
    pub fn take(&self) -> u64 {
        baseline::drain(&self.drained, || self.total()) as u64
    }

    /// Returns the sum of additions that may be negative.
    pub(super) fn signed_sum(&self) -> isize {
        baseline::signed_since(&self.drained, || self.total())
    }

    /// Starts again at `value`. Returns the sum.
    pub(super) fn replace(&self, value: usize) -> usize {
        baseline::replace(&self.drained, value, || self.total())
    }

    fn total(&self) -> usize {
        let overflow = self.overflow.load(Ordering::Relaxed);
        (0..self.area.mapped_cpus())
            .map(|cpu| self.on_cpu(cpu))
            .fold(overflow, usize::wrapping_add)
    }

    fn on_cpu(&self, cpu: usize) -> usize {
        let word = self.area.word(cpu as isize, VALUE);
        // Relaxed: the word is an independent sum; `baseline` adds the ordering that it needs.
        word.map_or(0, |word| word.load(Ordering::Relaxed))
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
    fn the_sum_includes_every_addition_once() {
        let counter = Counter::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100_000).for_each(|_| counter.add(3)));
            }
        });
        assert_eq!(counter.sum(), 1_200_000);
        let by_cpu: u64 = counter.per_cpu().map(|(_, value)| value).sum();
        assert_eq!(
            by_cpu + counter.overflow.load(Ordering::Relaxed) as u64,
            1_200_000
        );
    }

    #[test]
    fn concurrent_takes_return_every_addition_once() {
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

    /// Reads a sum while other code adds one and drains, `drains` times.
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
    fn a_sum_excludes_what_concurrent_takes_returned() {
        for drains in 0..50 {
            let sum =
                read_while_others_drain(drains, |drained, total| baseline::since(drained, total));
            assert_eq!(sum, 1, "{drains} drains: the true sum never exceeds one");
        }
        let torn = read_while_others_drain(1, |drained, total| {
            let before = drained.load(Ordering::Acquire);
            total().wrapping_sub(before)
        });
        assert_eq!(torn, 2);
    }

    #[test]
    fn an_addition_wraps_around() {
        let counter = Counter::new();
        counter.add(u64::MAX);
        counter.add(2);
        assert_eq!(counter.sum(), 1);
    }
}
