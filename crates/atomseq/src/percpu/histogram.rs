//! A histogram with one set of buckets per CPU.
//!
//! As in a counter, the slow path adds to separate buckets with an atomic instruction, and
//! [`Histogram::take`] moves a baseline per bucket. No gate is ever closed. The slow path's buckets
//! and the baselines are in the bulk memory of the two guards.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::area::Area;
use super::baseline;
use super::error::Error;
use super::memory;
use crate::platform;

const BUCKETS: usize = Area::BULK;

crate::sequence! {
    /// Adds one to the bucket at byte offset `offset`.
    unsafe fn record(slot: Slot, offset: Word) {
        let bucket = slot + offset + BUCKETS;
        let count = load(bucket);
        commit(bucket, count + 1);
    }
}

/// The sequences of this file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[&record::MODEL];

/// The maximum number of buckets.
const MAX_BUCKETS: usize = 256;

/// The number of buckets of a power-of-two scale.
const POWERS: usize = 65;

/// The guards whose bulk holds the slow path's buckets, and the baselines.
const OVERFLOW: isize = -1;
const DRAINED: isize = -2;

/// A histogram for many recording threads and few readers: recording is one plain add to memory.
///
/// Scope `SameCpu`. Wait-free. Recording costs no atomic instruction on the fast path and one on
/// the slow path. Every operation may be called in a signal handler. A histogram never closes a
/// gate, so it is also fast where the kernel's rseq fence is unreliable. Reading does not allocate.
/// It takes one slot (128 bytes) and eight bytes per bucket for each CPU, and eight bytes per
/// bound. See [the module](super) for what all per-CPU structures share.
///
/// ```
/// use atomseq::percpu::Histogram;
///
/// let latency = Histogram::with_bounds(&[100, 1_000, 10_000]);
/// for nanoseconds in [40, 90, 700, 50_000] {
///     latency.record(nanoseconds);
/// }
/// let snapshot = latency.snapshot();
/// assert_eq!(snapshot.counts(), [2, 1, 0, 1]);
/// assert_eq!(snapshot.quantile(0.5), Some(100));
/// ```
pub struct Histogram {
    area: Area,
    scale: Scale,
}

#[derive(Debug)]
enum Scale {
    PowersOfTwo,
    Bounds(Bounds),
}

/// The bounds of a histogram. They are not in a `Box`: a global allocator may be built on a
/// histogram.
#[derive(Debug)]
struct Bounds {
    start: NonNull<u64>,
    count: usize,
}

// SAFETY: it owns the numbers, which are not tied to a thread.
unsafe impl Send for Bounds {}
// SAFETY: the numbers do not change after `copy`.
unsafe impl Sync for Bounds {}

impl Bounds {
    fn copy(bounds: &[u64]) -> Option<Bounds> {
        let start = memory::allocate(size_of_val(bounds))?.cast();
        // SAFETY: the new memory has room for the numbers and is aligned to a slot, and so to
        // `u64`. It is not shared yet.
        unsafe { start.copy_from_nonoverlapping(NonNull::from(bounds).cast(), bounds.len()) };
        Some(Bounds {
            start,
            count: bounds.len(),
        })
    }
}

impl Deref for Bounds {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        // SAFETY: `copy` initialized `count` numbers at `start`, and they stay until `self` is
        // dropped.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl Drop for Bounds {
    fn drop(&mut self) {
        // SAFETY: `copy` allocated `start` for `count` numbers, and no borrow of them is left.
        unsafe { memory::free(self.start.cast(), self.count * size_of::<u64>()) }
    }
}

impl Histogram {
    /// Creates a histogram with 65 buckets: 0, 1, 2 to 3, 4 to 7, and so on for all 64 bits.
    ///
    /// # Panics
    ///
    /// If [`try_powers_of_two`](Histogram::try_powers_of_two) fails.
    pub fn powers_of_two() -> Histogram {
        Histogram::try_powers_of_two().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Creates a histogram with the buckets of [`powers_of_two`](Histogram::powers_of_two).
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if the operating system refuses the memory, [`Error::StartingUp`]
    /// during start-up.
    pub fn try_powers_of_two() -> Result<Histogram, Error> {
        let area = Histogram::area(POWERS)?;
        let scale = Scale::PowersOfTwo;
        Ok(Histogram { area, scale })
    }

    /// Creates a histogram with one bucket per bound, which includes the bound, and one bucket for
    /// all larger values.
    ///
    /// # Panics
    ///
    /// If [`try_with_bounds`](Histogram::try_with_bounds) fails.
    pub fn with_bounds(bounds: &[u64]) -> Histogram {
        Histogram::try_with_bounds(bounds).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Creates a histogram with the buckets of [`with_bounds`](Histogram::with_bounds).
    ///
    /// # Errors
    ///
    /// [`Error::Bounds`] if the bounds do not increase strictly, or there are none, or more than
    /// 255; [`Error::OutOfMemory`] if the operating system refuses the memory;
    /// [`Error::StartingUp`] during start-up.
    pub fn try_with_bounds(bounds: &[u64]) -> Result<Histogram, Error> {
        let rising = bounds.windows(2).all(|pair| pair[0] < pair[1]);
        if !rising || bounds.is_empty() || bounds.len() >= MAX_BUCKETS {
            return Err(Error::Bounds);
        }
        let area = Histogram::area(bounds.len() + 1)?;
        let bounds = Bounds::copy(bounds).ok_or(Error::OutOfMemory)?;
        let scale = Scale::Bounds(bounds);
        Ok(Histogram { area, scale })
    }

    fn area(buckets: usize) -> Result<Area, Error> {
        Area::ungated(buckets * 8)
    }

    /// Adds one to the bucket of a value. With bounds, finds the bucket by binary search.
    #[inline]
    pub fn record(&self, value: u64) {
        let bucket = self.scale.bucket(value);
        // SAFETY: `bucket` is below the number of buckets, so the offset lies in the bulk of a CPU
        // or a guard. The area outlives the call, and only this sequence writes a CPU's buckets.
        if unsafe { record::on_cpu(self.area.slots(), bucket * 8) }.is_err() {
            self.record_slowly(bucket);
        }
    }

    #[cold]
    fn record_slowly(&self, bucket: usize) {
        platform::register_this_thread();
        // Relaxed: a bucket is an independent sum that orders nothing.
        self.bucket(OVERFLOW, bucket)
            .fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts of all CPUs since the start, or since the last [`take`](Histogram::take).
    ///
    /// Includes every `record` that happened before the call, and some that happen during it.
    ///
    /// Wait-free: one load per bucket and possible CPU. While other threads call `take`, each word
    /// is read up to eight times, as in [`Counter::sum`](super::Counter::sum). Buckets are read one
    /// after the other: during a concurrent `take`, some may be from before it and some from after.
    /// Their total may then be one that the histogram never had.
    pub fn snapshot(&self) -> Snapshot<'_> {
        self.read(|total, drained| baseline::since(drained, total))
    }

    /// Returns the number of CPUs that have buckets.
    pub fn cpus(&self) -> usize {
        self.area.cpus()
    }

    /// Returns the counts of one CPU since the start. Values recorded on the slow path belong to no
    /// CPU and are left out, and [`take`](Histogram::take) has no effect.
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    pub fn snapshot_on(&self, cpu: usize) -> Snapshot<'_> {
        let cpus = self.cpus();
        assert!(cpu < cpus, "CPU {cpu} has no buckets: {cpus} have");
        let mut counts = [0; MAX_BUCKETS];
        for (bucket, into) in counts.iter_mut().enumerate().take(self.scale.buckets()) {
            // Relaxed: a count is an independent value that orders nothing.
            *into = self.bucket(cpu as isize, bucket).load(Ordering::Relaxed) as u64;
        }
        Snapshot {
            counts,
            scale: &self.scale,
        }
    }

    /// Returns the snapshot and starts again at zero. Every recorded value is in exactly one of the
    /// snapshots taken.
    ///
    /// Lock-free. Costs one atomic instruction per bucket and attempt, and no fence.
    pub fn take(&self) -> Snapshot<'_> {
        self.read(|total, drained| baseline::drain(drained, total))
    }

    fn read(&self, count: impl Fn(&dyn Fn() -> usize, &AtomicUsize) -> usize) -> Snapshot<'_> {
        let mut counts = [0; MAX_BUCKETS];
        for (bucket, into) in counts.iter_mut().enumerate().take(self.scale.buckets()) {
            *into = count(&|| self.total(bucket), self.bucket(DRAINED, bucket)) as u64;
        }
        Snapshot {
            counts,
            scale: &self.scale,
        }
    }

    /// Returns the sum of one bucket since the start, over all CPUs and the slow path.
    fn total(&self, bucket: usize) -> usize {
        (OVERFLOW..self.area.cpus() as isize)
            // Relaxed: each count is an independent value; `baseline` adds the ordering that it
            // needs.
            .map(|index| self.bucket(index, bucket).load(Ordering::Relaxed))
            .fold(0, usize::wrapping_add)
    }

    fn bucket(&self, index: isize, bucket: usize) -> &AtomicUsize {
        assert!(bucket < self.scale.buckets());
        let buckets = self.area.bulk_at(index).as_ptr();
        // SAFETY: the assertion keeps the address within the buckets in the bulk of a CPU or a
        // guard, which are aligned, zero-initialized and valid as long as `self`.
        unsafe { AtomicUsize::from_ptr(buckets.add(bucket * 8).cast()) }
    }
}

impl Scale {
    fn buckets(&self) -> usize {
        match self {
            Scale::PowersOfTwo => POWERS,
            Scale::Bounds(bounds) => bounds.len() + 1,
        }
    }

    #[inline]
    fn bucket(&self, value: u64) -> usize {
        match self {
            Scale::PowersOfTwo => 64 - value.leading_zeros() as usize,
            Scale::Bounds(bounds) => bounds.partition_point(|bound| *bound < value),
        }
    }

    /// Returns the largest value of a bucket.
    fn upper(&self, bucket: usize) -> u64 {
        match self {
            Scale::PowersOfTwo => u64::MAX.checked_shr(64 - bucket as u32).unwrap_or(0),
            Scale::Bounds(bounds) => bounds.get(bucket).copied().unwrap_or(u64::MAX),
        }
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("snapshot", &self.snapshot())
            .finish()
    }
}

/// The counts that a [`Histogram`] had when they were read, of one CPU or of all CPUs together.
/// Later recordings do not change them.
#[derive(Clone)]
pub struct Snapshot<'a> {
    counts: [u64; MAX_BUCKETS],
    scale: &'a Scale,
}

impl Snapshot<'_> {
    /// Returns the count of each bucket, from the smallest values up.
    pub fn counts(&self) -> &[u64] {
        &self.counts[..self.scale.buckets()]
    }

    /// Returns an iterator over each bucket's largest value, in the unit that was recorded, and its
    /// count, from the smallest values up.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts()
            .iter()
            .enumerate()
            .map(|(bucket, count)| (self.scale.upper(bucket), *count))
    }

    /// Returns the number of values recorded.
    pub fn total(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// Returns the largest value of the bucket that contains the quantile `part`, from 0 to 1.
    /// `None` if no value was recorded.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let total = self.total();
        let part = part.clamp(0.0, 1.0);
        let mut wanted = ((part * total as f64).ceil() as u64).clamp(1, total.max(1));
        // The product may have been rounded up to just above an integer.
        if wanted > 1 && (wanted - 1) as f64 / total as f64 >= part {
            wanted -= 1;
        }
        let mut seen = 0;
        self.buckets().find_map(|(upper, count)| {
            seen += count;
            (seen >= wanted).then_some(upper)
        })
    }
}

impl fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.buckets().filter(|(_, count)| *count > 0))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_in_its_bucket() {
        let histogram = Histogram::powers_of_two();
        for value in [0, 1, 2, 3, 4, 7, 8, u64::MAX] {
            histogram.record(value);
        }
        let snapshot = histogram.snapshot();
        let filled: Vec<(u64, u64)> = snapshot.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(
            filled,
            [(0, 1), (1, 1), (3, 2), (7, 2), (15, 1), (u64::MAX, 1)]
        );
        assert_eq!(snapshot.total(), 8);
        let slowly: usize = (0..65)
            .map(|bucket| histogram.bucket(OVERFLOW, bucket).load(Ordering::Relaxed))
            .sum();
        let by_cpu: u64 = (0..histogram.cpus())
            .map(|cpu| histogram.snapshot_on(cpu).total())
            .sum();
        assert_eq!(by_cpu + slowly as u64, 8);
        assert_eq!(snapshot.quantile(0.0), Some(0));
        assert_eq!(snapshot.quantile(1.0), Some(u64::MAX));
    }

    #[test]
    fn a_bucket_includes_its_bound() {
        let histogram = Histogram::with_bounds(&[10, 20]);
        for value in [0, 10, 11, 20, 21] {
            histogram.record(value);
        }
        assert_eq!(histogram.snapshot().counts(), [2, 2, 1]);
        assert_eq!(histogram.snapshot().quantile(0.5), Some(20));
    }

    #[test]
    fn a_quantile_at_an_exact_rank_is_the_value_of_that_rank() {
        let bounds: Vec<u64> = (1..=100).collect();
        let histogram = Histogram::with_bounds(&bounds);
        for total in 1..=100 {
            histogram.record(total);
            let snapshot = histogram.snapshot();
            for value in 1..=total {
                let part = value as f64 / total as f64;
                assert_eq!(snapshot.quantile(part), Some(value), "{value} of {total}");
            }
        }
    }

    #[test]
    fn concurrent_takes_return_every_value_once() {
        let histogram = Histogram::with_bounds(&[0]);
        let drained = std::thread::scope(|scope| {
            let drainer = scope.spawn(|| (0..1000).map(|_| histogram.take().total()).sum::<u64>());
            for _ in 0..2 {
                scope.spawn(|| (0..100_000).for_each(|value| histogram.record(value % 2)));
            }
            drainer.join().unwrap()
        });
        assert_eq!(drained + histogram.take().total(), 200_000);
        assert_eq!(histogram.snapshot().quantile(0.5), None);
    }

    #[test]
    fn invalid_bounds_are_refused() {
        assert_eq!(Histogram::try_with_bounds(&[]).unwrap_err(), Error::Bounds);
        assert_eq!(
            Histogram::try_with_bounds(&[2, 2]).unwrap_err(),
            Error::Bounds
        );
        let many: Vec<u64> = (0..256).collect();
        assert_eq!(
            Histogram::try_with_bounds(&many).unwrap_err(),
            Error::Bounds
        );
        assert!(Histogram::try_with_bounds(&many[..255]).is_ok());
    }
}
