//! A histogram of floating-point numbers.
//!
//! A [`percpu::Histogram`] counts the numbers of buckets. Its sum, on 64-bit targets, is that of
//! the billionths of values from 0 to 1; another value adds its fraction there, and the rest to a
//! counter of whole numbers. All are read by draining them into wider sums, so the sums may wrap
//! around, but not between two scrapes. Values that would make them do so soon are added to a
//! floating-point number.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use atomseq::percpu::{self, Error};
use prometheus_client::metrics::{MetricType, TypedMetric};

use crate::sums::Sums;

/// What a billionth is multiplied by.
const BILLION: f64 = 1e9;

/// The last bit of it, and of numbers at most 2^51 away from it, counts one. So a sum of it and a
/// number in this range is rounded to an integer, whose bits are the sum's lower bits.
const ROUNDS: f64 = (3_u64 << 51) as f64;

/// The least magnitude of values that are not split into whole numbers and billionths. It takes
/// millions of smaller ones until their sum wraps around.
const LARGE: f64 = (1_u64 << 40) as f64;

/// The maximum number of buckets.
const MAX_BUCKETS: usize = 256;

/// A histogram of floating-point numbers. A clone refers to the same one.
///
/// A value that is not finite is counted in a bucket, NaN in the last one, and left out of the sum.
/// The sum is exact to half a billionth for each value, as long as the sum between two scrapes is
/// within ±2^62, and fewer than 2^33 values are recorded between them. Values from ±2^40 on do not
/// count towards these: they have a sum of their own, a floating-point number that one atomic
/// instruction changes. It ends at the largest finite number.
///
/// The OpenMetrics format has no sum for negative bounds, and no negative sum, but
/// [`prometheus_client`] always writes one. Prometheus accepts it; other parsers may refuse the
/// whole text.
#[derive(Clone)]
pub struct Histogram(Arc<Inner>);

struct Inner {
    /// Counts the index of the bucket of each value.
    buckets: percpu::Histogram,
    bounds: Bounds,
    /// The billionths of values from 0 to 1, and of the fractions of others; and the others without
    /// their fractions.
    sums: Sums,
    /// The bits of the sum of the values from [`LARGE`] on.
    large: AtomicU64,
    drained: Mutex<Drained>,
}

/// What was counted until the last scrape.
struct Drained {
    counts: Box<[u64]>,
    wholes: i128,
    billionths: i128,
}

impl Histogram {
    /// Creates a histogram with one bucket per bound, which includes the bound, and one bucket for
    /// all larger values.
    ///
    /// # Panics
    ///
    /// If [`try_new`](Histogram::try_new) fails.
    #[track_caller]
    pub fn new(bounds: impl IntoIterator<Item = f64>) -> Histogram {
        // In a closure the panic would not be at the caller's line.
        match Histogram::try_new(bounds) {
            Ok(histogram) => histogram,
            Err(error) => panic!("{error}"),
        }
    }

    /// Creates a histogram with the buckets of [`new`](Histogram::new).
    ///
    /// # Errors
    ///
    /// [`Error::Bounds`] if the bounds do not increase strictly, are not finite, or there are none,
    /// or more than 255; [`Error::OutOfMemory`] if the operating system refuses the memory.
    pub fn try_new(bounds: impl IntoIterator<Item = f64>) -> Result<Histogram, Error> {
        // One more than are allowed is enough to see that: an iterator may have no end.
        let bounds: Vec<f64> = bounds.into_iter().take(MAX_BUCKETS).collect();
        let is_finite = bounds.iter().all(|bound| bound.is_finite());
        let is_rising = bounds.windows(2).all(|pair| pair[0] < pair[1]);
        if !is_finite || !is_rising || !(1..MAX_BUCKETS).contains(&bounds.len()) {
            return Err(Error::Bounds);
        }
        let count = bounds.len();
        // Each index is below 2^(7 + 1), and so has a bucket of its own. The last one, `count`, has
        // that of all larger values. So there are at most 256: a snapshot of more maps memory.
        let buckets = percpu::Histogram::try_log_linear(7, count as u64 - 1)?;
        Ok(Histogram(Arc::new(Inner {
            buckets: buckets.with_sum(),
            bounds: Bounds::shared(bounds),
            sums: Sums::try_new()?,
            large: AtomicU64::new(0),
            drained: Mutex::new(Drained {
                counts: vec![0; count + 1].into(),
                wholes: 0,
                billionths: 0,
            }),
        })))
    }

    /// Records a value.
    #[inline]
    pub fn observe(&self, value: f64) {
        // The difference is the number of billionths, rounded to the nearest, if that is in the
        // range of `ROUNDS`. Otherwise it is larger than 2^50: also if the value is negative or not
        // finite.
        let rounded = value * BILLION + ROUNDS;
        let billionths = rounded.to_bits().wrapping_sub(ROUNDS.to_bits());
        if billionths > BILLION as u64 {
            return self.0.observe_large(value);
        }
        let inner = &*self.0;
        let bucket = inner.bounds.below(value);
        inner.sums.record(&inner.buckets, bucket, billionths);
    }

    /// Returns the sum, the number of values, and for each bucket its bound, the last one infinite,
    /// and the number of values in it.
    ///
    /// An update that another thread makes during the call may be in the buckets and not in the
    /// sum, or in the sum and not in the buckets. A later call returns both.
    pub fn get(&self) -> (f64, u64, Vec<(f64, u64)>) {
        let drained = self.0.drained.lock();
        let mut drained = drained.unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.0.buckets.take();
        for (count, new) in drained.counts.iter_mut().zip(snapshot.counts()) {
            *count = count.wrapping_add(*new);
        }
        let [wholes, billionths] = self.0.sums.take(&snapshot);
        drained.wholes += i128::from(wholes as i64);
        drained.billionths += i128::from(billionths as i64);
        let (wholes, billionths) = (drained.wholes, drained.billionths);
        let carried = wholes + billionths / 1_000_000_000;
        // Relaxed: an independent sum.
        let large = f64::from_bits(self.0.large.load(Ordering::Relaxed));
        let sum = carried as f64 + (billionths % 1_000_000_000) as f64 / BILLION + large;
        let bounds = self.0.bounds.all.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(drained.counts.iter().copied()).collect();
        let total = buckets.iter().map(|(_, count)| count).sum();
        (sum, total, buckets)
    }
}

impl Inner {
    #[inline(never)]
    fn observe_large(&self, value: f64) {
        let bucket = match value.is_nan() {
            true => self.bounds.all.len(),
            false => self.bounds.below(value),
        };
        // Not so of NaN.
        let is_small = value.abs() < LARGE;
        if !is_small {
            if value.is_finite() {
                self.add_large(value);
            }
            return self.sums.record(&self.buckets, bucket, 0);
        }
        let whole = value as i64;
        let fraction = value - whole as f64;
        let billionths = (fraction * BILLION + 0.5_f64.copysign(fraction)) as i64;
        // A negative number is added as its complement.
        self.sums.record(&self.buckets, bucket, billionths as u64);
        if whole != 0 {
            self.sums.add_wholes(whole as u64);
        }
    }

    fn add_large(&self, value: f64) {
        let add = |bits| {
            let sum = f64::from_bits(bits) + value;
            // An infinite sum would never be finite again.
            Some(sum.clamp(f64::MIN, f64::MAX).to_bits())
        };
        // Relaxed: an independent sum.
        _ = self
            .large
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

/// The bounds, and for each range of values the one in it, so that one is compared with a value.
///
/// A range is a sixteenth of a power of two: the numbers whose bits from [`KEY`] on are the same.
///
/// A clone shares both arrays.
#[derive(Clone)]
struct Bounds {
    all: Arc<[f64]>,
    /// From that of the smallest positive bound, which also holds all smaller values that are not
    /// negative, to that of the largest. None if a range has several bounds, or if there would be
    /// more than [`MAX_RANGES`].
    ranges: Arc<[Range]>,
    /// The bits of the first range.
    first: u64,
}

/// The lowest of the bits that have the sign, the exponent and the four bits that follow it.
const KEY: u32 = 48;

/// As many as 64 powers of two.
const MAX_RANGES: usize = 1024;

/// A range of values, of which none is negative.
struct Range {
    /// The bits of its bound, or else of the next one, or of infinity. The bits of two numbers that
    /// are not negative compare as the numbers do, in fewer instructions.
    bound: u64,
    /// The number of bounds below it.
    below: usize,
}

/// The bounds of all histograms by their bits, so that those of a family share theirs: its ranges
/// take more memory than the counts of some CPUs.
static IN_USE: Mutex<BTreeMap<Box<[u64]>, Bounds>> = Mutex::new(BTreeMap::new());

impl Bounds {
    /// Returns bounds, which increase. Histograms that have the same ones share them.
    fn shared(all: Vec<f64>) -> Bounds {
        let bits: Box<[u64]> = all.iter().map(|bound| bound.to_bits()).collect();
        // No code panics while it changes them, except for a lack of memory.
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bounds) = in_use.get(&bits) {
            return bounds.clone();
        }
        let bounds = Bounds::new(all);
        in_use.retain(|_, bounds| Arc::strong_count(&bounds.all) > 1);
        in_use.insert(bits, bounds.clone());
        bounds
    }

    /// The bounds increase.
    fn new(all: Vec<f64>) -> Bounds {
        let key = |bound: f64| bound.to_bits() >> KEY;
        let positive = all.partition_point(|bound| *bound <= 0.0);
        let mut keys = all[positive..].iter().map(|bound| key(*bound));
        let first = keys.next().unwrap_or(0);
        let last = keys.next_back().unwrap_or(first);
        let is_alone = |pair: &[f64]| pair[0] > 0.0 && key(pair[0]) < key(pair[1]);
        // A bound that is not positive is compared with the values of the first range as well.
        let is_simple = all.windows(2).all(is_alone) && last - first < MAX_RANGES as u64;
        let ranges = (first..=last).filter(|_| is_simple).map(|range| {
            let below = all.partition_point(|bound| *bound < 0.0 || key(*bound) < range);
            let bound = all.get(below).copied().unwrap_or(f64::INFINITY);
            Range {
                // Only -0.0 is not positive and has a sign. It is the same bound as 0.0.
                bound: bound.abs().to_bits(),
                below,
            }
        });
        Bounds {
            first,
            ranges: ranges.collect(),
            all: all.into(),
        }
    }

    /// Returns the number of bounds that are less than a value: the index of its bucket.
    #[inline]
    fn below(&self, value: f64) -> usize {
        let bits = value.to_bits();
        // That of a negative number is larger than all of them.
        let range = (bits >> KEY).saturating_sub(self.first);
        match self.ranges.get(range as usize) {
            Some(range) => range.below + usize::from(range.bound < bits),
            None => self.search(value),
        }
    }

    #[inline(never)]
    fn search(&self, value: f64) -> usize {
        self.all.partition_point(|bound| *bound < value)
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sum, count, buckets) = self.get();
        f.debug_struct("Histogram")
            .field("sum", &sum)
            .field("count", &count)
            .field("buckets", &buckets)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_found_as_by_comparing_all_bounds() {
        let scales = [
            vec![0.0],
            vec![-0.0],
            vec![-1.0],
            vec![-1.0, 1.0],
            vec![-1.0, -0.5, 0.0, 0.25, 0.26, 1e300],
            vec![f64::MIN, f64::MIN_POSITIVE, 5e-324, f64::MAX],
            vec![
                0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
            ],
            vec![1.0, 1.01, 1.02, 1.03, 1.9, 1.91, 64.0],
            (-100..100).map(f64::from).collect(),
            (1..256).map(f64::from).collect(),
        ];
        for mut scale in scales {
            scale.sort_unstable_by(f64::total_cmp);
            let bounds = Bounds::new(scale.clone());
            let edges = scale
                .iter()
                .chain(&[-0.0, 0.0, 1.5, f64::INFINITY, f64::NEG_INFINITY]);
            for value in edges.flat_map(|edge| [edge.next_down(), *edge, edge.next_up()]) {
                if value.is_nan() {
                    continue;
                }
                let expected = scale.iter().filter(|bound| **bound < value).count();
                assert_eq!(bounds.below(value), expected, "{value} in {scale:?}");
            }
        }
        assert!(Histogram::try_new((0..256).map(f64::from)).is_err());
        // An iterator without an end.
        assert!(Histogram::try_new((0..).map(f64::from)).is_err());
        let histogram = Histogram::new((0..255).map(f64::from));
        (0..256).for_each(|value| histogram.observe(f64::from(value)));
        assert!(histogram.get().2.iter().all(|(_, count)| *count == 1));
    }

    /// A snapshot of more buckets asks for memory, and panics without it.
    #[test]
    fn there_are_no_more_buckets_than_a_snapshot_holds() {
        for count in [1, 2, 127, 128, 254, 255] {
            let histogram = Histogram::new((0..count).map(f64::from));
            let buckets = histogram.0.buckets.snapshot().counts().len();
            assert_eq!(buckets, count as usize + 1);
            (0..=count).for_each(|value| histogram.observe(f64::from(value)));
            assert!(histogram.get().2.iter().all(|(_, count)| *count == 1));
        }
    }

    /// At the edges of what `observe` does itself, and of what rounding by addition does.
    #[test]
    fn each_value_is_added_to_half_a_billionth() {
        let near = |value: f64| [value.next_down(), value, value.next_up()];
        let edges = [
            0.0,
            1e-9,
            0.5e-9,
            1.0,
            1.000_000_000_4,
            1.000_000_000_6,
            2.25e6,
            4.5e6,
            9e15,
        ];
        for value in edges
            .into_iter()
            .flat_map(near)
            .chain([1e-300, 0.1, 1.0 / 3.0])
        {
            for value in [value, -value] {
                let histogram = Histogram::new([0.0]);
                histogram.observe(value);
                let (sum, total, _) = histogram.get();
                // What the largest of them have in all their bits.
                let precision = 0.5e-9 + value.abs() * f64::EPSILON;
                assert!((sum - value).abs() <= precision, "{value} is {sum}");
                assert_eq!(total, 1);
            }
        }
        for value in [
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            -f64::NAN,
            f64::MAX,
            f64::MIN,
        ] {
            let histogram = Histogram::new([0.0]);
            histogram.observe(value);
            assert_eq!(histogram.get().1, 1);
            if !value.is_finite() {
                assert_eq!(histogram.get().0, 0.0, "{value}");
            }
        }
    }

    #[test]
    fn a_value_is_in_the_bucket_of_the_first_bound_that_is_not_less() {
        let histogram = Histogram::new([-1.0, 0.0, 0.5]);
        for value in [
            -2.0,
            -1.0,
            -0.5,
            -0.0,
            0.25,
            0.5,
            0.75,
            f64::NAN,
            f64::INFINITY,
        ] {
            histogram.observe(value);
        }
        let (sum, count, buckets) = histogram.get();
        let expected = [(-1.0, 2), (0.0, 2), (0.5, 2), (f64::INFINITY, 3)];
        assert_eq!((count, &buckets[..]), (9, &expected[..]));
        assert_eq!(sum, -2.0);
        for bounds in [
            &[][..],
            &[1.0, 1.0],
            &[0.0, -0.0],
            &[f64::NAN],
            &[f64::INFINITY],
        ] {
            let refused = Histogram::try_new(bounds.iter().copied());
            assert_eq!(refused.unwrap_err(), Error::Bounds, "{bounds:?}");
        }
    }

    #[test]
    fn a_sum_outlives_scrapes_and_carries() {
        let histogram = Histogram::new([1.0]);
        let threads = 4;
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| (0..10_000).for_each(|_| histogram.observe(0.75)));
            }
            (0..100).for_each(|_| assert!(histogram.get().0 <= 30_000.0));
        });
        assert_eq!(histogram.get().0, 30_000.0);
        histogram.observe(-30_000.25);
        assert_eq!(histogram.get().0, -0.25);
        histogram.observe(1e12);
        histogram.observe(0.1);
        assert_eq!(histogram.clone().get().0, 1e12 - 0.15);
    }

    /// A program may record the largest integer for what it does not know. A sum that wrapped
    /// around was negative then, which the format does not allow.
    #[test]
    fn a_sum_of_large_values_does_not_wrap_around() {
        let near = [LARGE.next_down(), LARGE, LARGE.next_up()];
        for value in near
            .into_iter()
            .chain([2_f64.powi(53), 2_f64.powi(64), 1e300])
        {
            for value in [value, -value] {
                let histogram = Histogram::new([1.0]);
                (0..8).for_each(|_| histogram.observe(value));
                let (sum, total, _) = histogram.get();
                assert_eq!(total, 8);
                // At most half a billionth each for the first.
                assert!((sum - 8.0 * value).abs() <= 1e-3, "{value}: {sum}");
            }
        }
        let histogram = Histogram::new([1.0]);
        for (value, expected) in [(f64::MAX, f64::MAX), (f64::MAX, f64::MAX), (f64::MIN, 0.0)] {
            histogram.observe(value);
            assert_eq!(histogram.get().0, expected);
        }
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| histogram.observe(LARGE)));
            }
        });
        assert_eq!(histogram.get().0, 4000.0 * LARGE);
    }

    #[test]
    fn histograms_with_the_same_bounds_share_them_as_long_as_they_live() {
        let bounds = |first| [first, 1234.5];
        let (one, other) = (Histogram::new(bounds(0.1)), Histogram::new(bounds(0.1)));
        assert!(Arc::ptr_eq(&one.0.bounds.ranges, &other.0.bounds.ranges));
        let ranges = Arc::downgrade(&one.0.bounds.ranges);
        drop(one);
        drop(Histogram::new(bounds(0.2)));
        assert!(ranges.upgrade().is_some());
        drop(other);
        drop(Histogram::new(bounds(0.3)));
        assert!(ranges.upgrade().is_none());
        other_bounds_that_compare_alike();
    }

    /// -0.0 and 0.0 are the same bound, but not the same label.
    fn other_bounds_that_compare_alike() {
        let bounds = [-0.0, 0.0].map(|bound| Histogram::new([bound]).get().2[0].0);
        assert_eq!(bounds.map(f64::is_sign_negative), [true, false]);
    }
}
