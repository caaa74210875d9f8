//! The counts of a histogram at one time.

use std::fmt;

use super::scale::{FEW, Scale, Words};

/// The counts that a [`Histogram`](super::Histogram) had when they were read, of one CPU or of all
/// CPUs together. Later recordings do not change them.
pub struct Snapshot<'a> {
    counts: Counts,
    sum: Option<u64>,
    scale: &'a Scale,
}

/// A count for each bucket.
#[allow(clippy::large_enum_variant, reason = "few counts need no allocation")]
enum Counts {
    Few([u64; FEW]),
    Many(Words),
}

impl Counts {
    /// Reads the counts of `buckets` buckets.
    #[track_caller]
    fn of(buckets: usize, count: impl FnMut(usize) -> u64) -> Counts {
        let mut counts = match buckets <= FEW {
            true => Counts::Few([0; FEW]),
            false => Counts::Many(
                Words::zeroed(buckets)
                    .expect("the operating system refused the memory for a snapshot"),
            ),
        };
        let into = match &mut counts {
            Counts::Few(counts) => Some(&mut counts[..buckets]),
            Counts::Many(counts) => counts.as_mut(),
        };
        let into = into.into_iter().flatten();
        into.zip((0..buckets).map(count))
            .for_each(|(into, count)| *into = count);
        counts
    }
}

/// What [`Snapshot::quantile`] knows of a quantile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantile {
    /// It is in a bucket whose largest value is this.
    AtMost(u64),
    /// It is in the bucket for all values above this, the last bound of the histogram.
    Above(u64),
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantile::AtMost(value) => write!(f, "at most {value}"),
            Quantile::Above(bound) => write!(f, "more than {bound}"),
        }
    }
}

impl<'a> Snapshot<'a> {
    /// Reads the counts, then the sum.
    #[track_caller]
    pub(super) fn new(
        scale: &'a Scale,
        count: impl FnMut(usize) -> u64,
        sum: impl FnOnce() -> Option<u64>,
    ) -> Snapshot<'a> {
        Snapshot {
            counts: Counts::of(scale.buckets(), count),
            sum: sum(),
            scale,
        }
    }

    /// Returns the count of each bucket, from the smallest values up.
    pub fn counts(&self) -> &[u64] {
        match &self.counts {
            Counts::Few(counts) => &counts[..self.scale.buckets()],
            Counts::Many(counts) => counts,
        }
    }

    /// Returns an iterator over each bucket's largest value, in the unit that was recorded, and its
    /// count, from the smallest values up. The largest value of the bucket for all larger values is
    /// 2^64 - 1.
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

    /// Returns the sum of the values recorded, which wraps around at 2^64 (at 2^32 on 32-bit
    /// targets). `None` unless the histogram was created [with a
    /// sum](super::Histogram::with_sum).
    pub fn sum(&self) -> Option<u64> {
        self.sum
    }

    /// Returns what is known of the quantile `part`, from 0 to 1: the largest value of its bucket,
    /// or that it is above all bounds. `None` if no value was recorded. A smaller or larger `part`
    /// counts as 0 or 1, and NaN as 0.
    pub fn quantile(&self, part: f64) -> Option<Quantile> {
        let total = self.total();
        // That of NaN is NaN, and becomes 0 as an integer.
        let part = part.clamp(0.0, 1.0);
        let mut wanted = ((part * total as f64).ceil() as u64).clamp(1, total.max(1));
        // The product may have been rounded up to just above an integer.
        if wanted > 1 && (wanted - 1) as f64 / total as f64 >= part {
            wanted -= 1;
        }
        let mut seen = 0;
        let bucket = self.counts().iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        match self.scale.overflow() {
            Some(bound) if bucket + 1 == self.scale.buckets() => Some(Quantile::Above(bound)),
            _ => Some(Quantile::AtMost(self.scale.upper(bucket))),
        }
    }
}

impl Clone for Snapshot<'_> {
    /// # Panics
    ///
    /// If there are more than 256 buckets and the system refuses memory for their counts.
    fn clone(&self) -> Self {
        let counts = self.counts();
        Snapshot {
            counts: Counts::of(counts.len(), |bucket| counts[bucket]),
            sum: self.sum,
            scale: self.scale,
        }
    }
}

impl fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.buckets().filter(|(_, count)| *count > 0))
            .finish()
    }
}
