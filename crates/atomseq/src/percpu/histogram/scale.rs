//! Which bucket a value belongs to.

use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;

use crate::percpu::memory;

/// The maximum number of buckets of given bounds. A snapshot of so few is not allocated.
pub(super) const FEW: usize = 256;

/// The number of buckets of a power-of-two scale.
const POWERS: usize = 65;

/// The maximum number of bounds that are all compared with a value.
const LINEAR: usize = 16;

/// The maximum precision of a log-linear scale.
pub(super) const MAX_BITS: u32 = 12;

/// The buckets of a histogram.
#[derive(Debug)]
pub(super) enum Scale {
    PowersOfTwo,
    /// The largest value of each bucket but the last.
    Bounds(Words),
    LogLinear {
        bits: u32,
        /// The index of the last bucket.
        last: usize,
        /// The largest value of the last bucket but one, or 2^64 - 1 if no bucket follows it.
        max: u64,
    },
}

/// Returns whether numbers are the bounds of a histogram.
pub(super) const fn are_bounds(bounds: &[u64]) -> bool {
    if bounds.is_empty() || bounds.len() >= FEW {
        return false;
    }
    let mut index = 1;
    while index < bounds.len() {
        if bounds[index - 1] >= bounds[index] {
            return false;
        }
        index += 1;
    }
    true
}

impl Scale {
    /// Returns a scale with a precision of at most [`MAX_BITS`].
    pub(super) const fn log_linear(bits: u32, max: u64) -> Scale {
        let bucket = log_linear_bucket(bits, max);
        let max = log_linear_upper(bits, bucket);
        Scale::LogLinear {
            bits,
            // No value is above the largest one.
            last: if max == u64::MAX { bucket } else { bucket + 1 },
            max,
        }
    }

    /// Returns the number of buckets.
    pub(super) const fn buckets(&self) -> usize {
        match self {
            Scale::PowersOfTwo => POWERS,
            Scale::Bounds(bounds) => bounds.count + 1,
            Scale::LogLinear { last, .. } => *last + 1,
        }
    }

    /// Returns the bucket of a value: less than [`buckets`](Scale::buckets).
    #[inline]
    pub(super) fn bucket(&self, value: u64) -> usize {
        match self {
            Scale::PowersOfTwo => 64 - value.leading_zeros() as usize,
            Scale::Bounds(bounds) => match bounds.len() <= LINEAR {
                // Its comparisons do not wait for each other, and none is a branch.
                true => bounds.iter().map(|bound| usize::from(*bound < value)).sum(),
                false => bounds.partition_point(|bound| *bound < value),
            },
            Scale::LogLinear { bits, last, .. } => log_linear_bucket(*bits, value).min(*last),
        }
    }

    /// Returns the largest value of a bucket.
    pub(super) fn upper(&self, bucket: usize) -> u64 {
        match self {
            Scale::PowersOfTwo => u64::MAX.checked_shr(64 - bucket as u32).unwrap_or(0),
            Scale::Bounds(bounds) => bounds.get(bucket).copied().unwrap_or(u64::MAX),
            Scale::LogLinear { bits, last, max } => match bucket == *last && *max != u64::MAX {
                true => u64::MAX,
                false => log_linear_upper(*bits, bucket),
            },
        }
    }

    /// Returns the value above which values are in the last bucket, if that bucket is for all
    /// larger ones.
    pub(super) fn overflow(&self) -> Option<u64> {
        let max = match self {
            Scale::PowersOfTwo => None,
            Scale::Bounds(bounds) => bounds.last().copied(),
            Scale::LogLinear { max, .. } => Some(*max),
        };
        max.filter(|max| *max != u64::MAX)
    }
}

/// Returns the bucket of a value: one for each value below 2^(bits + 1), then 2^bits for each power
/// of two.
#[inline]
const fn log_linear_bucket(bits: u32, value: u64) -> usize {
    // By how many bits the value is longer than `bits + 1`.
    let shift = 63 - (value | 1 << bits).leading_zeros() - bits;
    ((shift as usize) << bits) + (value >> shift) as usize
}

/// Returns the largest value of a bucket.
const fn log_linear_upper(bits: u32, bucket: usize) -> u64 {
    let half = 1 << bits;
    if bucket < 2 * half {
        return bucket as u64;
    }
    let shift = (bucket >> bits) - 1;
    // From `half` up to, not including, `2 * half`.
    let leading = bucket - (shift << bits);
    // The sum is 2^64, and its lower 64 bits 0, in the very last bucket.
    ((leading as u64 + 1) << shift).wrapping_sub(1)
}

/// Numbers that do not change: borrowed, or a copy. The copy is not in a `Box`: a global allocator
/// may be built on a histogram.
#[derive(Debug)]
pub(super) struct Words {
    start: NonNull<u64>,
    count: usize,
    is_owned: bool,
}

// SAFETY: it owns the numbers, or borrows those of a static, and they are not tied to a thread.
unsafe impl Send for Words {}
// SAFETY: the numbers change only through an exclusive reference.
unsafe impl Sync for Words {}

impl Words {
    pub(super) const fn borrowed(words: &'static [u64]) -> Words {
        // SAFETY: a reference is not null.
        let start = unsafe { NonNull::new_unchecked(words.as_ptr().cast_mut()) };
        Words {
            start,
            count: words.len(),
            is_owned: false,
        }
    }

    /// Allocates that many zeros. `None` if the system refuses the memory.
    pub(super) fn zeroed(count: usize) -> Option<Words> {
        Some(Words {
            start: memory::allocate(count * size_of::<u64>())?.cast(),
            count,
            is_owned: true,
        })
    }

    /// `None` if the system refuses the memory.
    pub(super) fn copied(words: &[u64]) -> Option<Words> {
        let mut copy = Words::zeroed(words.len())?;
        copy.as_mut()?.copy_from_slice(words);
        Some(copy)
    }

    /// Returns the numbers, if they are owned.
    pub(super) fn as_mut(&mut self) -> Option<&mut [u64]> {
        let (start, count) = (self.start.as_ptr(), self.count);
        // SAFETY: `zeroed` allocated and initialized the numbers, aligned to a slot, and nothing
        // else refers to them.
        self.is_owned
            .then(|| unsafe { slice::from_raw_parts_mut(start, count) })
    }
}

impl Deref for Words {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        // SAFETY: `count` initialized numbers are at `start`. They stay until `self` is dropped, or
        // always if they are borrowed.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        if self.is_owned {
            // SAFETY: `zeroed` allocated `start` for `count` numbers, and no borrow of them is
            // left.
            unsafe { memory::free(self.start.cast(), self.count * size_of::<u64>()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values around every power of two.
    fn values() -> impl Iterator<Item = u64> {
        let around =
            |bit: u32| (0..5).map(move |by| (1_u64 << bit).wrapping_add(by).wrapping_sub(3));
        (0..64).flat_map(around).chain([u64::MAX - 1, u64::MAX])
    }

    #[test]
    fn a_log_linear_bucket_has_its_values_and_is_narrow() {
        for bits in 0..=MAX_BITS {
            let scale = Scale::log_linear(bits, u64::MAX);
            assert_eq!(scale.buckets(), (65 - bits as usize) << bits);
            assert_eq!(scale.overflow(), None);
            assert_eq!(scale.upper(scale.buckets() - 1), u64::MAX);
            for value in values() {
                let bucket = scale.bucket(value);
                let upper = scale.upper(bucket);
                assert!(value <= upper, "{bits} bits: {value} is above {upper}");
                let below = bucket.checked_sub(1).map(|below| scale.upper(below));
                assert!(
                    below.is_none_or(|below| below < value),
                    "{bits} bits: {value}"
                );
                let lower = below.map_or(0, |below| below + 1);
                assert!(
                    upper - lower <= lower >> bits,
                    "{bits} bits: {lower} to {upper}"
                );
            }
        }
    }

    #[test]
    fn values_above_the_scale_are_in_its_last_bucket() {
        for (bits, max) in [
            (0, 0),
            (0, 1),
            (5, 1000),
            (7, 60_000_000_000),
            (12, 1 << 63),
        ] {
            let scale = Scale::log_linear(bits, max);
            let last = scale.buckets() - 1;
            let Some(bound) = scale.overflow() else {
                panic!("{max} is not the largest value");
            };
            assert!(bound >= max && scale.bucket(max) == last - 1);
            assert_eq!(
                (scale.bucket(bound), scale.bucket(bound + 1)),
                (last - 1, last)
            );
            assert_eq!(
                (scale.bucket(u64::MAX), scale.upper(last)),
                (last, u64::MAX)
            );
        }
        let sizes = [5, 7].map(|bits| Scale::log_linear(bits, 60_000_000_000).buckets());
        assert_eq!(sizes, [1017, 3809]);
    }
}
