//! A histogram with its buckets once a CPU.
//!
//! As in a counter, the slow path adds to buckets of its own with an atomic instruction, and
//! taking moves a base line: no gate is ever closed. Both live in the guards' share of the bulk.

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
    /// Adds one to the bucket at a byte offset.
    unsafe fn record(slot: Slot, offset: Word) {
        let bucket = slot + offset + BUCKETS;
        let count = load(bucket);
        commit(bucket, count + 1);
    }
}

/// For the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[&record::MODEL];

/// The most buckets a histogram has.
const MAX_BUCKETS: usize = 256;

/// How many there are of powers of two.
const POWERS: usize = 65;

/// The slow path's buckets, and what was taken.
const OVERFLOW: isize = -1;
const DRAINED: isize = -2;

/// A histogram that many threads record in and few read: recording is one plain add to memory.
///
/// Scope `SameCpu`; wait-free; recording costs no atomic instruction, on the slow path one. May be
/// used in signal handlers. Fast also where the kernel's fence cannot be trusted, for it never
/// closes a gate. Reading does not allocate. Takes a slot and eight bytes a bucket for each CPU,
/// and eight bytes a bound; [the module](super) tells the rest.
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

/// The bounds of a histogram, in memory as an area's: an allocator may be built on a histogram.
#[derive(Debug)]
struct Bounds {
    start: NonNull<u64>,
    count: usize,
}

// SAFETY: it owns the numbers, which do not change.
unsafe impl Send for Bounds {}
// SAFETY: as above.
unsafe impl Sync for Bounds {}

impl Bounds {
    fn copy(bounds: &[u64]) -> Option<Bounds> {
        let start = memory::allocate(size_of_val(bounds))?.cast();
        // SAFETY: room for as many, aligned for a slot and so for them, and in nobody else's hands.
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
        // SAFETY: `copy` has put so many there, and they stay as long as `self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl Drop for Bounds {
    fn drop(&mut self) {
        // SAFETY: allocated by `copy`, for as many numbers, and nobody borrows them any more.
        unsafe { memory::free(self.start.cast(), self.count * size_of::<u64>()) }
    }
}

impl Histogram {
    /// Buckets 0, 1, 2 to 3, 4 to 7, … up to all 64 bits: 65 in all.
    ///
    /// # Panics
    ///
    /// If [`try_powers_of_two`](Histogram::try_powers_of_two) fails.
    pub fn powers_of_two() -> Histogram {
        Histogram::try_powers_of_two().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same, or why there is none.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    pub fn try_powers_of_two() -> Result<Histogram, Error> {
        let area = Histogram::area(POWERS)?;
        let scale = Scale::PowersOfTwo;
        Ok(Histogram { area, scale })
    }

    /// Buckets up to and including each bound, and one for everything above the last.
    ///
    /// # Panics
    ///
    /// If [`try_with_bounds`](Histogram::try_with_bounds) fails.
    pub fn with_bounds(bounds: &[u64]) -> Histogram {
        Histogram::try_with_bounds(bounds).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same, or why there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Bounds`] if the bounds do not rise strictly, or are none or more than 255;
    /// [`Error::OutOfMemory`].
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

    /// Counts a value; with bounds, after a binary search among them.
    #[inline]
    pub fn record(&self, value: u64) {
        let bucket = self.scale.bucket(value);
        // SAFETY: the offset of one of the buckets, which live as long as the area.
        if unsafe { record::on_cpu(self.area.slots(), bucket * 8) }.is_err() {
            self.record_slowly(bucket);
        }
    }

    #[cold]
    fn record_slowly(&self, bucket: usize) {
        platform::register_this_thread();
        // Relaxed: a sum on its own.
        self.bucket(OVERFLOW, bucket)
            .fetch_add(1, Ordering::Relaxed);
    }

    /// What was recorded since the start, or since it was last taken, on all CPUs together.
    ///
    /// Includes every `record` that happened before; of those that happen meanwhile, some.
    /// Wait-free: one load for each bucket and possible CPU, and while others take, up to eight
    /// times that, as in [`Counter::sum`](super::Counter::sum). Each bucket is read for itself:
    /// while others take, some may be of before and some of after, and their total none that there
    /// was.
    pub fn snapshot(&self) -> Snapshot<'_> {
        self.read(|total, drained| baseline::since(drained, total))
    }

    /// How many CPUs have buckets.
    pub fn cpus(&self) -> usize {
        self.area.cpus()
    }

    /// What one CPU has recorded since the start; what the slow path recorded belongs to no CPU.
    ///
    /// # Panics
    ///
    /// If there is no such CPU.
    pub fn snapshot_on(&self, cpu: usize) -> Snapshot<'_> {
        let cpus = self.cpus();
        assert!(cpu < cpus, "CPU {cpu} has no buckets: {cpus} have");
        let mut counts = [0; MAX_BUCKETS];
        for (bucket, into) in counts.iter_mut().enumerate().take(self.scale.buckets()) {
            // Relaxed: a value on its own.
            *into = self.bucket(cpu as isize, bucket).load(Ordering::Relaxed) as u64;
        }
        Snapshot {
            counts,
            scale: &self.scale,
        }
    }

    /// Takes the snapshot and starts again at zero: every value is in exactly one snapshot taken.
    ///
    /// Lock-free; one atomic instruction a bucket and try, and no fence.
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

    /// One bucket on all CPUs and the slow path, since the start.
    fn total(&self, bucket: usize) -> usize {
        (OVERFLOW..self.area.cpus() as isize)
            // Relaxed: values on their own.
            .map(|index| self.bucket(index, bucket).load(Ordering::Relaxed))
            .fold(0, usize::wrapping_add)
    }

    fn bucket(&self, index: isize, bucket: usize) -> &AtomicUsize {
        assert!(bucket < self.scale.buckets());
        let buckets = self.area.bulk_at(index).as_ptr();
        // SAFETY: one of the buckets in the bulk of a CPU or a guard, zero-initialised and aligned.
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

    /// The largest value of a bucket.
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

/// What a [`Histogram`] held, merged over all CPUs: plain numbers that no longer change.
#[derive(Clone)]
pub struct Snapshot<'a> {
    counts: [u64; MAX_BUCKETS],
    scale: &'a Scale,
}

impl Snapshot<'_> {
    /// How many values fell into each bucket.
    pub fn counts(&self) -> &[u64] {
        &self.counts[..self.scale.buckets()]
    }

    /// Each bucket's largest value, in the unit that was recorded, and its count, from the smallest
    /// values up.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts()
            .iter()
            .enumerate()
            .map(|(bucket, count)| (self.scale.upper(bucket), *count))
    }

    /// How many values there are.
    pub fn total(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// The largest value of the bucket in which the given part of all values, from 0 to 1, is
    /// reached; `None` if there are no values.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        let total = self.total();
        let part = part.clamp(0.0, 1.0);
        let mut wanted = ((part * total as f64).ceil() as u64).clamp(1, total.max(1));
        // The product may have been rounded up to just above a whole number.
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
    fn values_fall_into_their_buckets() {
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
    fn bounds_are_inclusive() {
        let histogram = Histogram::with_bounds(&[10, 20]);
        for value in [0, 10, 11, 20, 21] {
            histogram.record(value);
        }
        assert_eq!(histogram.snapshot().counts(), [2, 2, 1]);
        assert_eq!(histogram.snapshot().quantile(0.5), Some(20));
    }

    #[test]
    fn a_part_that_is_a_whole_number_of_values_ends_with_the_last_of_them() {
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
    fn every_value_is_drained_once() {
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
    fn refuses_what_cannot_be() {
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
