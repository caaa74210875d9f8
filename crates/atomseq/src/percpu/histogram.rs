//! A histogram with one set of buckets per CPU.
//!
//! As in a counter, the slow path adds to separate words with an atomic instruction, and
//! [`Histogram::take`] moves a baseline per word. No gate is ever closed. The slow path's words and
//! the baselines are in the two guards. Word 0 of a slot is the sum, its bulk memory the buckets.

mod scale;
mod snapshot;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use self::scale::{Scale, Words};
pub use self::snapshot::{Quantile, Snapshot};
use super::area::{Area, started};
use super::baseline;
use super::counter;
use super::error::Error;
use super::lazy::Lazy;
use crate::platform;

const BUCKETS: usize = Area::BULK;
const SUM: usize = counter::VALUE;

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

/// The guards that hold the slow path's words, and the baselines.
const OVERFLOW: isize = -1;
const DRAINED: isize = -2;

/// A histogram for many recording threads and few readers: recording is one plain add to memory.
///
/// Scope `SameCpu`. Wait-free once its memory is mapped, but [`take`](Histogram::take), which is
/// lock-free. Recording costs no atomic instruction on the fast path and one on the slow path; with
/// a [sum](Histogram::with_sum) it is two plain adds, or two atomic ones. Every operation may be
/// called in a signal handler. A histogram never closes a gate, so it is also fast where the
/// kernel's rseq fence is unreliable. It takes one slot (128 bytes) and eight bytes per bucket for
/// each CPU, which the first recording or [`prepare`](Histogram::prepare) maps. Both may wait for
/// other threads that map memory: if the system refuses it, up to some tenths of a second for one
/// that may hold the last of it. See [the module](super) for what all per-CPU structures share.
///
/// | scale | buckets | for |
/// |---|---|---|
/// | [`powers_of_two`](Histogram::powers_of_two) | 65 | every value, within a factor of two |
/// | [`log_linear`](Histogram::log_linear) | a number per power of two | every value up to a max, at a chosen precision |
/// | [`with_bounds`](Histogram::with_bounds) | one per bound, and one more | bounds that are given, as those of a service level |
///
/// ```
/// use std::time::Duration;
///
/// use atomseq::percpu::{Histogram, Quantile};
///
/// /// Latencies up to a minute, with an error of at most 1/32.
/// static LATENCY: Histogram = Histogram::log_linear(5, 60_000_000_000).with_sum();
///
/// for microseconds in [40, 90, 700, 50_000] {
///     LATENCY.record_duration(Duration::from_micros(microseconds));
/// }
/// LATENCY.record_duration(Duration::from_secs(3600));
///
/// let snapshot = LATENCY.snapshot();
/// assert_eq!(snapshot.total(), 5);
/// assert_eq!(snapshot.sum(), Some(3_600_050_830_000));
/// let Some(Quantile::AtMost(median)) = snapshot.quantile(0.5) else { panic!() };
/// assert!((700_000..722_000).contains(&median));
/// // Nothing is known of the largest value but that it is above the scale.
/// assert!(matches!(snapshot.quantile(1.0), Some(Quantile::Above(_))));
/// ```
pub struct Histogram {
    area: Lazy,
    scale: Scale,
    /// How many the scale has.
    buckets: usize,
    has_sum: bool,
}

impl Histogram {
    /// Creates a histogram with 65 buckets: 0, 1, 2 to 3, 4 to 7, and so on for all 64 bits.
    pub const fn powers_of_two() -> Histogram {
        Histogram::of(Scale::PowersOfTwo)
    }

    /// Creates a histogram with the buckets of [`powers_of_two`](Histogram::powers_of_two), and
    /// maps its memory.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if the operating system refuses the memory, [`Error::StartingUp`]
    /// during start-up.
    pub fn try_powers_of_two() -> Result<Histogram, Error> {
        Histogram::powers_of_two().prepared()
    }

    /// Creates a histogram whose buckets are as wide as precision demands, as those of HDR
    /// histograms: 2<sup>`bits`</sup> of equal width in each power of two, up to the one that
    /// contains `max`, and one bucket for all larger values.
    ///
    /// Up to `max`, a value below 2<sup>`bits` + 1</sup> has a bucket of its own, and the bounds of
    /// every other bucket are less than a 2<sup>`bits`</sup>th apart, relative to the lower one: 7
    /// bits are better than 1 %. For nanoseconds up to a minute that takes 3,809 buckets, 5 bits
    /// 1,017.
    ///
    /// # Panics
    ///
    /// If `bits` is more than 12. In a `static`, that is an error of compilation.
    #[track_caller]
    pub const fn log_linear(bits: u32, max: u64) -> Histogram {
        if bits > scale::MAX_BITS {
            panic!("a precision of more than 12 bits takes too many buckets: ask for less");
        }
        Histogram::of(Scale::log_linear(bits, max))
    }

    /// Creates a histogram with the buckets of [`log_linear`](Histogram::log_linear), and maps its
    /// memory.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if `bits` is more than 12; and those of
    /// [`try_powers_of_two`](Histogram::try_powers_of_two).
    pub fn try_log_linear(bits: u32, max: u64) -> Result<Histogram, Error> {
        if bits > scale::MAX_BITS {
            return Err(Error::TooLarge);
        }
        Histogram::of(Scale::log_linear(bits, max)).prepared()
    }

    /// Creates a histogram with one bucket per bound, which includes the bound, and one bucket for
    /// all larger values. [`try_with_bounds`](Histogram::try_with_bounds) takes bounds that are
    /// known only at run time.
    ///
    /// # Panics
    ///
    /// If the bounds do not increase strictly, or there are none, or more than 255. In a `static`,
    /// that is an error of compilation.
    #[track_caller]
    pub const fn with_bounds(bounds: &'static [u64]) -> Histogram {
        if !scale::are_bounds(bounds) {
            panic!(
                "histogram bounds must increase strictly, and there must be from 1 to 255 of them"
            );
        }
        Histogram::of(Scale::Bounds(Words::borrowed(bounds)))
    }

    /// Creates a histogram with the buckets of [`with_bounds`](Histogram::with_bounds) and a copy
    /// of the bounds, eight bytes each, and maps its memory.
    ///
    /// # Errors
    ///
    /// [`Error::Bounds`] if the bounds do not increase strictly, or there are none, or more than
    /// 255; and those of [`try_powers_of_two`](Histogram::try_powers_of_two).
    pub fn try_with_bounds(bounds: &[u64]) -> Result<Histogram, Error> {
        if !scale::are_bounds(bounds) {
            return Err(Error::Bounds);
        }
        started()?;
        let bounds = Words::copied(bounds).ok_or(Error::OutOfMemory)?;
        Histogram::of(Scale::Bounds(bounds)).prepared()
    }

    const fn of(scale: Scale) -> Histogram {
        let buckets = scale.buckets();
        Histogram {
            area: Lazy::with_bulk(buckets * 8),
            scale,
            buckets,
            has_sum: false,
        }
    }

    fn prepared(self) -> Result<Histogram, Error> {
        self.prepare()?;
        Ok(self)
    }

    /// Keeps the sum of the recorded values as well, for [`Snapshot::sum`]. Recording a value is
    /// then two additions, and another thread's snapshot may come between them.
    pub const fn with_sum(mut self) -> Histogram {
        self.has_sum = true;
        self
    }

    /// Maps the histogram's memory, unless that has been done, and starts atomseq if it has not
    /// been started.
    ///
    /// The first recording does the same. In a signal handler that is safe only if atomseq has been
    /// started, because start-up may allocate.
    ///
    /// # Errors
    ///
    /// Those of [`try_powers_of_two`](Histogram::try_powers_of_two).
    pub fn prepare(&self) -> Result<(), Error> {
        self.area.map()
    }

    /// Adds one to the bucket of a value. With more than 16 bounds, finds the bucket by
    /// binary search.
    ///
    /// # Panics
    ///
    /// If this maps the histogram's memory, and [`prepare`](Histogram::prepare) fails. The panic
    /// names a line of this library, so that recording takes no hidden argument.
    #[inline]
    pub fn record(&self, value: u64) {
        // SAFETY: the scale returns a bucket below the number of buckets.
        unsafe { self.add(self.scale.bucket(value), value as usize, self.has_sum) }
    }

    /// Adds one to a bucket, counted from 0, and `amount` to the sum if the histogram was created
    /// [with a sum](Histogram::with_sum). For callers that find the bucket themselves, as that of a
    /// floating-point number. An amount of 0 costs no addition; pass it if there is no sum.
    ///
    /// # Panics
    ///
    /// If there is no such bucket, or as [`record`](Histogram::record).
    #[inline]
    #[track_caller]
    pub fn record_in(&self, bucket: usize, amount: u64) {
        if bucket >= self.buckets {
            no_bucket(bucket, self.buckets);
        }
        // Without a sum, the amount is added to a word that is not read: cheaper than another test.
        // SAFETY: the test above.
        unsafe { self.add(bucket, amount as usize, amount != 0) }
    }

    /// Adds one to a bucket, and an amount to the sum if it is `to_sum`.
    ///
    /// # Safety
    ///
    /// There is such a bucket.
    #[inline(always)]
    unsafe fn add(&self, bucket: usize, amount: usize, to_sum: bool) {
        let Some(slots) = self.area.slots() else {
            return self.add_both_slowly(bucket, amount, to_sum);
        };
        // The sum comes first because the bucket is found last. With the bucket first, the CPU
        // stalled on the late address: recording a floating-point number took a tenth longer.
        if to_sum {
            // SAFETY: the sequence accesses only word 0 of a CPU's slot. The area outlives the
            // call, and only this sequence writes that word.
            if unsafe { counter::add::on_cpu(slots, amount) }.is_err() {
                self.add_slowly(SUM, amount);
            }
        }
        // SAFETY: the caller promises that `bucket` is below the number of buckets, so the offset
        // lies in the bulk of a CPU or a guard. The area outlives the call, and only this sequence
        // writes a CPU's buckets.
        if unsafe { record::on_cpu(slots, bucket * 8) }.is_err() {
            self.add_slowly(BUCKETS + bucket * 8, 1);
        }
    }

    /// Records a duration in nanoseconds: at most 2^64 - 1, or 584 years.
    ///
    /// # Panics
    ///
    /// As [`record`](Histogram::record).
    #[inline]
    pub fn record_duration(&self, duration: Duration) {
        self.record(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    #[cold]
    fn add_both_slowly(&self, bucket: usize, amount: usize, to_sum: bool) {
        if to_sum {
            self.add_slowly(SUM, amount);
        }
        self.add_slowly(BUCKETS + bucket * 8, 1);
    }

    /// Adds to the slow path's word at a byte offset from a slot.
    #[cold]
    fn add_slowly(&self, offset: usize, amount: usize) {
        let prepared = self.prepare();
        platform::register_this_thread();
        match self.area.word(OVERFLOW, offset) {
            // Relaxed: a word is an independent sum that orders nothing.
            Some(word) => _ = word.fetch_add(amount, Ordering::Relaxed),
            None => panic!("{}", prepared.expect_err("it is mapped if that succeeded")),
        }
    }

    /// Returns the counts, over all CPUs and the slow path, since the start or the last
    /// [`take`](Histogram::take).
    ///
    /// Wait-free: one load per bucket and possible CPU. While other threads call `take`, each word
    /// is read up to 32 times, as in [`Counter::sum`](super::Counter::sum). Buckets are read one
    /// after the other: during a concurrent `take`, some may be from before it and some from after.
    /// Their total may then be one that the histogram never had. Up to 256 buckets are read into
    /// the result itself; memory for more comes from the operating system.
    ///
    /// # Panics
    ///
    /// If the system refuses that memory.
    #[track_caller]
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
    /// If there is no such CPU, or as [`snapshot`](Histogram::snapshot).
    #[track_caller]
    pub fn snapshot_on(&self, cpu: usize) -> Snapshot<'_> {
        let cpus = self.cpus();
        assert!(cpu < cpus, "CPU {cpu} has no buckets: {cpus} have");
        // Relaxed: a count is an independent value that orders nothing.
        let word = |offset| {
            let word = self.area.word(cpu as isize, offset);
            word.map_or(0, |word| word.load(Ordering::Relaxed))
        };
        self.collect(word)
    }

    /// Returns the snapshot and starts again at zero. Every recorded value is in exactly one of the
    /// snapshots taken.
    ///
    /// Lock-free. Costs one atomic instruction per bucket and attempt, and no fence.
    ///
    /// # Panics
    ///
    /// As [`snapshot`](Histogram::snapshot), before anything is taken.
    #[track_caller]
    pub fn take(&self) -> Snapshot<'_> {
        self.read(|total, drained| baseline::drain(drained, total))
    }

    #[track_caller]
    fn read(&self, count: impl Fn(&dyn Fn() -> usize, &AtomicUsize) -> usize) -> Snapshot<'_> {
        self.collect(|offset| {
            let drained = self.area.word(DRAINED, offset);
            drained.map_or(0, |drained| count(&|| self.total(offset), drained))
        })
    }

    /// Returns what `word` returns for the byte offset of each bucket, and of the sum.
    #[track_caller]
    fn collect(&self, word: impl Fn(usize) -> usize) -> Snapshot<'_> {
        let sum = || word(SUM) as u64;
        Snapshot::new(
            &self.scale,
            |bucket| word(BUCKETS + bucket * 8) as u64,
            || self.has_sum.then(sum),
        )
    }

    /// Returns the total of one word since the start, over all CPUs and the slow path.
    fn total(&self, offset: usize) -> usize {
        (OVERFLOW..self.area.cpus() as isize)
            .filter_map(|index| self.area.word(index, offset))
            // Relaxed: each count is an independent value; `baseline` adds the ordering that it
            // needs.
            .map(|word| word.load(Ordering::Relaxed))
            .fold(0, usize::wrapping_add)
    }
}

#[cold]
#[track_caller]
fn no_bucket(bucket: usize, buckets: usize) -> ! {
    panic!("there is no bucket {bucket}: there are {buckets}")
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("snapshot", &self.snapshot())
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
            .filter_map(|bucket| histogram.area.word(OVERFLOW, BUCKETS + bucket * 8))
            .map(|word| word.load(Ordering::Relaxed))
            .sum();
        let by_cpu: u64 = (0..histogram.cpus())
            .map(|cpu| histogram.snapshot_on(cpu).total())
            .sum();
        assert_eq!(by_cpu + slowly as u64, 8);
        assert_eq!(snapshot.quantile(0.0), Some(Quantile::AtMost(0)));
        assert_eq!(snapshot.quantile(f64::NAN), snapshot.quantile(0.0));
        assert_eq!(snapshot.quantile(1.0), Some(Quantile::AtMost(u64::MAX)));
        assert_eq!(snapshot.sum(), None);
    }

    #[test]
    fn a_bucket_includes_its_bound() {
        let histogram = Histogram::with_bounds(&[10, 20]);
        for value in [0, 10, 11, 20, 21] {
            histogram.record(value);
        }
        assert_eq!(histogram.snapshot().counts(), [2, 2, 1]);
        assert_eq!(
            histogram.snapshot().quantile(0.5),
            Some(Quantile::AtMost(20))
        );
    }

    #[test]
    fn a_quantile_at_an_exact_rank_is_the_value_of_that_rank() {
        let bounds: Vec<u64> = (1..=100).collect();
        let histogram = Histogram::try_with_bounds(&bounds).unwrap();
        for total in 1..=100 {
            histogram.record(total);
            let snapshot = histogram.snapshot();
            for value in 1..=total {
                let part = value as f64 / total as f64;
                let expected = Some(Quantile::AtMost(value));
                assert_eq!(snapshot.quantile(part), expected, "{value} of {total}");
            }
        }
    }

    #[test]
    fn a_quantile_in_the_overflow_bucket_has_no_value() {
        let histogram = Histogram::with_bounds(&[10, 20]);
        assert_eq!(histogram.snapshot().quantile(0.5), None);
        for value in [5, 21, u64::MAX] {
            histogram.record(value);
        }
        let snapshot = histogram.snapshot();
        let quantiles = [0.3, 0.5, 1.0].map(|part| snapshot.quantile(part).unwrap());
        let above = Quantile::Above(20);
        assert_eq!(quantiles, [Quantile::AtMost(10), above, above]);
        assert_eq!(above.to_string(), "more than 20");
        // A bound may be the largest value of all: then nothing is above it.
        let histogram = Histogram::with_bounds(&[u64::MAX]);
        histogram.record(u64::MAX);
        let quantile = histogram.snapshot().quantile(1.0);
        assert_eq!(quantile, Some(Quantile::AtMost(u64::MAX)));
    }

    #[test]
    fn a_sum_is_kept_if_it_is_asked_for() {
        static LATENCY: Histogram = Histogram::log_linear(3, 1 << 20).with_sum();
        assert_eq!(LATENCY.snapshot().sum(), Some(0));
        LATENCY.record(7);
        LATENCY.record_duration(Duration::from_micros(3));
        LATENCY.record_duration(Duration::MAX);
        let expected = 3007_usize.wrapping_sub(1) as u64;
        assert_eq!(LATENCY.take().sum(), Some(expected));
        assert_eq!(LATENCY.snapshot().sum(), Some(0));
        let by_cpu = (0..LATENCY.cpus()).map(|cpu| LATENCY.snapshot_on(cpu).sum().unwrap());
        let slowly = LATENCY.area.word(OVERFLOW, SUM).unwrap();
        let all = by_cpu.fold(slowly.load(Ordering::Relaxed), |sum, own| {
            sum.wrapping_add(own as usize)
        });
        assert_eq!(all as u64, expected);
    }

    #[test]
    fn a_bucket_may_be_found_by_the_caller() {
        let histogram = Histogram::with_bounds(&[10, 20]).with_sum();
        for (bucket, amount) in [(2, 5), (0, 0), (2, u64::MAX)] {
            histogram.record_in(bucket, amount);
        }
        let snapshot = histogram.snapshot();
        assert_eq!(
            (snapshot.counts(), snapshot.sum()),
            (&[1, 0, 2][..], Some(4))
        );
        let beyond = std::panic::catch_unwind(|| histogram.record_in(3, 0));
        assert!(beyond.is_err());
        assert_eq!(histogram.snapshot().total(), 3);
    }

    #[test]
    fn concurrent_takes_return_every_sum_once() {
        let histogram = Histogram::powers_of_two().with_sum();
        let sum = || histogram.take().sum().unwrap();
        let drained = std::thread::scope(|scope| {
            let drainer = scope.spawn(|| (0..1000).map(|_| sum()).sum::<u64>());
            for _ in 0..2 {
                scope.spawn(|| (0..100_000).for_each(|value| histogram.record(value % 3)));
            }
            drainer.join().unwrap()
        });
        assert_eq!(drained + sum(), 199_998);
    }

    #[test]
    fn a_snapshot_of_many_buckets_is_exact() {
        let histogram = Histogram::log_linear(7, u64::MAX);
        for bit in 0..64 {
            histogram.record(1 << bit);
        }
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.counts().len(), 7424);
        assert_eq!(snapshot.clone().total(), 64);
        let median = snapshot.quantile(0.5).unwrap();
        assert!(matches!(median, Quantile::AtMost(value) if value >> 31 == 1));
        let last = snapshot.quantile(1.0);
        let widest = (1 << 56) - 1;
        assert_eq!(last, Some(Quantile::AtMost((1 << 63) + widest)));
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
