//! The two parts of a histogram's sum: whole numbers, and billionths.

use atomseq::percpu::{Error, Histogram, Snapshot};

pub(crate) use of_this_width::Sums;

/// The words of the CPUs hold both.
#[cfg(target_pointer_width = "64")]
mod of_this_width {
    use atomseq::percpu::Count;

    use super::*;
    use crate::COUNTERS;

    /// The whole numbers. The billionths are the sum of the histogram of buckets.
    pub(crate) struct Sums(Count<'static>);

    impl Sums {
        pub(crate) fn try_new() -> Result<Sums, Error> {
            COUNTERS.try_create().map(Sums)
        }

        /// Counts a value in a bucket, and adds its billionths.
        #[inline]
        pub(crate) fn record(&self, buckets: &Histogram, bucket: usize, billionths: u64) {
            buckets.record_in(bucket, billionths);
        }

        #[inline]
        pub(crate) fn add_wholes(&self, wholes: u64) {
            self.0.add(wholes);
        }

        /// Returns what was added since the last call, the billionths up to this snapshot.
        pub(crate) fn take(&self, snapshot: &Snapshot<'_>) -> [u64; 2] {
            [self.0.take(), snapshot.sum().unwrap_or(0)]
        }
    }
}

/// A word of a CPU is too short: five times 1.0 would overflow it.
#[cfg(not(target_pointer_width = "64"))]
mod of_this_width {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    /// The whole numbers, and the billionths.
    pub(crate) struct Sums([AtomicU64; 2]);

    impl Sums {
        pub(crate) fn try_new() -> Result<Sums, Error> {
            Ok(Sums([AtomicU64::new(0), AtomicU64::new(0)]))
        }

        /// Counts a value in a bucket, and adds its billionths.
        #[inline]
        pub(crate) fn record(&self, buckets: &Histogram, bucket: usize, billionths: u64) {
            buckets.record_in(bucket, 0);
            // Relaxed, here and below: independent sums.
            self.0[1].fetch_add(billionths, Relaxed);
        }

        #[inline]
        pub(crate) fn add_wholes(&self, wholes: u64) {
            self.0[0].fetch_add(wholes, Relaxed);
        }

        /// Returns what was added since the last call.
        pub(crate) fn take(&self, _snapshot: &Snapshot<'_>) -> [u64; 2] {
            [0, 1].map(|part: usize| self.0[part].swap(0, Relaxed))
        }
    }
}
