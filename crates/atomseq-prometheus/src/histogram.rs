//! A histogram of floating-point numbers.
//!
//! A [`percpu::Histogram`] counts the numbers of buckets, which it keeps apart exactly. The sum of
//! floating-point numbers takes two sums of integers: of the numbers without their fractions, and
//! of the fractions' billionths. A zero is not added. Both are read by draining them into wider
//! sums, so they may wrap around, but not between two scrapes.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use atomseq::percpu::{self, Count, Error};
use prometheus_client::metrics::{MetricType, TypedMetric};

use crate::COUNTERS;

/// What a billionth is multiplied by.
const BILLION: f64 = 1e9;

/// The maximum number of buckets.
const MAX_BUCKETS: usize = 256;

/// The maximum number of bounds that are all compared with a value.
const LINEAR: usize = 32;

/// A histogram of floating-point numbers. A clone refers to the same one.
///
/// A value that is not finite is counted in a bucket, NaN in the last one, and left out of the sum.
/// The sum is exact to half a billionth for each value, as long as values and their sum between two
/// scrapes are within ±2^62.
#[derive(Clone)]
pub struct Histogram(Arc<Inner>);

struct Inner {
    /// Counts the index of the bucket of each value.
    buckets: percpu::Histogram,
    bounds: Box<[f64]>,
    /// The sum of the values without their fractions, since the last scrape.
    wholes: Count<'static>,
    /// The sum of the fractions, in billionths.
    billionths: Count<'static>,
    /// Both until the last scrape.
    drained: Mutex<(i128, i128)>,
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
        let bounds: Box<[f64]> = bounds.into_iter().collect();
        let is_finite = bounds.iter().all(|bound| bound.is_finite());
        let is_rising = bounds.windows(2).all(|pair| pair[0] < pair[1]);
        if !is_finite || !is_rising || !(1..MAX_BUCKETS).contains(&bounds.len()) {
            return Err(Error::Bounds);
        }
        Ok(Histogram(Arc::new(Inner {
            // Each index is below 2^(7 + 1), and so has a bucket of its own.
            buckets: percpu::Histogram::try_log_linear(7, bounds.len() as u64)?,
            bounds,
            wholes: COUNTERS.try_create()?,
            billionths: COUNTERS.try_create()?,
            drained: Mutex::default(),
        })))
    }

    /// Records a value.
    #[inline]
    pub fn observe(&self, value: f64) {
        self.0.buckets.record(bucket(&self.0.bounds, value) as u64);
        // An infinity becomes the largest number, whose fraction is not finite.
        let whole = value as i64;
        let fraction = value - whole as f64;
        if !fraction.is_finite() {
            return;
        }
        // A negative number is added as its complement.
        if whole != 0 {
            self.0.wholes.add(whole as u64);
        }
        let billionths = (fraction * BILLION + 0.5_f64.copysign(fraction)) as i64;
        if billionths != 0 {
            self.0.billionths.add(billionths as u64);
        }
    }

    /// Returns the sum, the number of values, and for each bucket its bound, the last one infinite,
    /// and the number of values in it.
    ///
    /// An update by another thread may be in the buckets and not yet in the sum.
    pub fn get(&self) -> (f64, u64, Vec<(f64, u64)>) {
        let snapshot = self.0.buckets.snapshot();
        let bounds = self.0.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets = bounds.zip(snapshot.counts().iter().copied());
        (self.sum(), snapshot.total(), buckets.collect())
    }

    fn sum(&self) -> f64 {
        let drained = self.0.drained.lock();
        let mut drained = drained.unwrap_or_else(PoisonError::into_inner);
        drained.0 += i128::from(self.0.wholes.take() as i64);
        drained.1 += i128::from(self.0.billionths.take() as i64);
        let (wholes, billionths) = *drained;
        let carried = wholes + billionths / 1_000_000_000;
        carried as f64 + (billionths % 1_000_000_000) as f64 / BILLION
    }
}

/// Returns the number of bounds that are less than a value: all of them for NaN.
#[inline]
fn bucket(bounds: &[f64], value: f64) -> usize {
    #[allow(clippy::neg_cmp_op_on_partial_ord, reason = "NaN is above all bounds")]
    let is_less = |bound: &f64| !(value <= *bound);
    match bounds.len() <= LINEAR {
        // These comparisons do not wait for each other, and none is a branch.
        true => bounds.iter().map(|bound| usize::from(is_less(bound))).sum(),
        false => bounds.partition_point(is_less),
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
    fn many_bounds_are_searched_as_few_are() {
        let bounds: Vec<f64> = (0..255).map(f64::from).collect();
        for value in [-1.0, -0.0, 0.5, 31.0, 31.5, 253.5, 254.0, 1e9, f64::NAN] {
            let expected = bounds
                .iter()
                .filter(|bound| value.is_nan() || **bound < value)
                .count();
            assert_eq!(bucket(&bounds, value), expected, "{value}");
            assert_eq!(
                bucket(&bounds[..LINEAR], value),
                expected.min(LINEAR),
                "{value}"
            );
        }
        let histogram = Histogram::new(bounds.iter().copied());
        (0..256).for_each(|value| histogram.observe(f64::from(value)));
        assert!(histogram.get().2.iter().all(|(_, count)| *count == 1));
        assert!(Histogram::try_new((0..256).map(f64::from)).is_err());
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
        histogram.observe(1e15);
        histogram.observe(0.1);
        assert_eq!(histogram.clone().get().0, 1e15 - 0.15);
    }
}
