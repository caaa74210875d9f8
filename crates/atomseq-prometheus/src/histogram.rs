//! A histogram of floating-point numbers.
//!
//! The buckets are those of a [`percpu::Histogram`] over the numbers' bits, ordered as the numbers
//! are. The sum of floating-point numbers takes two sums of integers: of the numbers without their
//! fractions, and of the fractions' billionths. A zero is not added. Both are read by draining them
//! into wider sums, so they may wrap around, but not between two scrapes.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use atomseq::percpu::{self, Count, Error};
use prometheus_client::metrics::{MetricType, TypedMetric};

use crate::COUNTERS;

/// What a billionth is multiplied by.
const BILLION: f64 = 1e9;

/// A histogram of floating-point numbers. A clone refers to the same one.
///
/// A value that is not finite is counted in a bucket, NaN in the last one, and left out of the sum.
/// The sum is exact to half a billionth for each value, as long as values and their sum between two
/// scrapes are within ±2^62.
#[derive(Clone)]
pub struct Histogram(Arc<Inner>);

struct Inner {
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
        Histogram::try_new(bounds).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Creates a histogram with the buckets of [`new`](Histogram::new).
    ///
    /// # Errors
    ///
    /// [`Error::Bounds`] if the bounds do not increase strictly, are not finite, or there are none,
    /// or more than 255; [`Error::OutOfMemory`] if the operating system refuses the memory.
    pub fn try_new(bounds: impl IntoIterator<Item = f64>) -> Result<Histogram, Error> {
        let bounds: Box<[f64]> = bounds.into_iter().collect();
        if !bounds.iter().all(|bound| bound.is_finite()) {
            return Err(Error::Bounds);
        }
        let ordered: Vec<u64> = bounds.iter().map(|bound| order(*bound)).collect();
        Ok(Histogram(Arc::new(Inner {
            buckets: percpu::Histogram::try_with_bounds(&ordered)?,
            bounds,
            wholes: COUNTERS.try_create()?,
            billionths: COUNTERS.try_create()?,
            drained: Mutex::default(),
        })))
    }

    /// Records a value.
    #[inline]
    pub fn observe(&self, value: f64) {
        self.0.buckets.record(order(value));
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

/// Returns a number that is ordered among others as the value is: NaN above all.
#[inline]
fn order(value: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    if value.is_nan() {
        return u64::MAX;
    }
    // Both zeros are one number.
    let bits = (value + 0.0).to_bits();
    match bits & SIGN {
        0 => bits | SIGN,
        _ => !bits,
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
    fn order_is_that_of_the_numbers() {
        let ascending = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -f64::MIN_POSITIVE,
            0.0,
            f64::from_bits(1),
            1.5,
            f64::MAX,
            f64::INFINITY,
        ];
        assert!(
            ascending
                .windows(2)
                .all(|pair| order(pair[0]) < order(pair[1]))
        );
        assert_eq!(order(-0.0), order(0.0));
        assert!(order(f64::NAN) > order(f64::INFINITY));
        assert_eq!(order(-f64::NAN), order(f64::NAN));
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
