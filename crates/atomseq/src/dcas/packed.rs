//! Two numbers in one word: what double-width compare-and-swap does, if both fit into 64 bits.

use std::fmt;

use crate::sync::{AtomicU64, Ordering};

/// Two numbers in one 64-bit word that change together. The first has `BITS` bits, the second the
/// rest.
///
/// The scope is `Machine`, and all operations are lock-free. A change costs one atomic instruction,
/// and a load none. Where both numbers fit, this is cheaper than [`Adjacent`](super::Adjacent), on
/// every target. A typical use is an index with a tag that counts its changes: an index that recurs
/// is then not mistaken for the earlier one.
///
/// ```
/// use atomseq::dcas::Packed;
///
/// // The index of a free block, and how many times it has changed.
/// let free = Packed::<32>::new(7, 0);
/// let (index, tag) = free.load();
/// assert_eq!(free.compare_exchange((index, tag), (3, tag + 1)), Ok(()));
/// free.fetch_update(|(_, tag)| Some((7, tag + 1))).unwrap();
/// // The index is 7 again, but not the same 7.
/// assert_eq!(free.compare_exchange((index, tag), (9, tag + 1)), Err((7, 2)));
/// ```
///
/// Neither part may be empty:
///
/// ```compile_fail,E0080
/// let none = atomseq::dcas::Packed::<64>::new(1, 0);
/// ```
#[repr(transparent)]
pub struct Packed<const BITS: u32>(AtomicU64);

impl<const BITS: u32> Packed<BITS> {
    /// The largest first number.
    pub const MAX_FIRST: u64 = {
        assert!(0 < BITS && BITS < 64, "each part has at least one bit");
        u64::MAX >> (64 - BITS)
    };

    /// The largest second number.
    pub const MAX_SECOND: u64 = u64::MAX >> BITS;

    /// Creates a pair of these numbers.
    ///
    /// # Panics
    ///
    /// If a number does not fit: see [`MAX_FIRST`](Packed::MAX_FIRST) and
    /// [`MAX_SECOND`](Packed::MAX_SECOND).
    #[track_caller]
    pub const fn new(first: u64, second: u64) -> Packed<BITS> {
        Packed(AtomicU64::new(Self::word((first, second))))
    }

    /// Returns both numbers as of one time. Costs no atomic instruction.
    #[inline]
    pub fn load(&self) -> (u64, u64) {
        // Acquire: pairs with the sequentially consistent compare-and-swap that stored them.
        Self::numbers(self.0.load(Ordering::Acquire))
    }

    /// Changes both numbers if both are as expected. One atomic instruction.
    ///
    /// # Errors
    ///
    /// The current numbers, if one differs. Nothing was changed.
    ///
    /// # Panics
    ///
    /// If a new number does not fit. Expected numbers may have any value: those that do not fit
    /// differ from the current ones.
    #[inline]
    #[track_caller]
    pub fn compare_exchange(
        &self,
        expected: (u64, u64),
        new: (u64, u64),
    ) -> Result<(), (u64, u64)> {
        let new = Self::word(new);
        if expected.0 > Self::MAX_FIRST || expected.1 > Self::MAX_SECOND {
            return Err(self.load());
        }
        self.0
            .compare_exchange(
                Self::word(expected),
                new,
                Ordering::SeqCst,
                Ordering::SeqCst,
            )
            .map(|_| ())
            .map_err(Self::numbers)
    }

    /// Replaces both numbers by the result of `update` (S92, figure 5.1). Returns `Ok` with the
    /// previous numbers, or `Err` with the current ones if `update` returns `None`.
    ///
    /// `update` may be called more than once; only the result of its last call is stored. An
    /// `update` that itself changes this pair on each call is retried indefinitely. Each attempt
    /// costs one atomic instruction.
    ///
    /// # Panics
    ///
    /// If a new number does not fit.
    #[track_caller]
    pub fn fetch_update(
        &self,
        mut update: impl FnMut((u64, u64)) -> Option<(u64, u64)>,
    ) -> Result<(u64, u64), (u64, u64)> {
        let mut old = self.load();
        while let Some(new) = update(old) {
            match self.compare_exchange(old, new) {
                Ok(()) => return Ok(old),
                Err(found) => old = found,
            }
        }
        Err(old)
    }

    #[track_caller]
    const fn word((first, second): (u64, u64)) -> u64 {
        assert!(
            first <= Self::MAX_FIRST && second <= Self::MAX_SECOND,
            "a number does not fit into its part of the word"
        );
        first | second << BITS
    }

    const fn numbers(word: u64) -> (u64, u64) {
        (word & Self::MAX_FIRST, word >> BITS)
    }
}

impl<const BITS: u32> Default for Packed<BITS> {
    fn default() -> Packed<BITS> {
        Packed::new(0, 0)
    }
}

impl<const BITS: u32> fmt::Debug for Packed<BITS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Packed").field(&self.load()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_all_its_bits_and_no_more() {
        fn holds<const BITS: u32>() {
            let max = (Packed::<BITS>::MAX_FIRST, Packed::<BITS>::MAX_SECOND);
            assert_eq!(max.0.count_ones() + max.1.count_ones(), 64);
            for numbers in [(0, 0), (max.0, 0), (0, max.1), max] {
                let pair = Packed::<BITS>::new(numbers.0, numbers.1);
                assert_eq!(pair.load(), numbers);
                // Expected numbers that do not fit never match, whatever their low bits are.
                let too_large = (numbers.0.wrapping_add(max.0).wrapping_add(1), numbers.1);
                assert_eq!(pair.compare_exchange(too_large, (0, 0)), Err(numbers));
            }
        }
        holds::<1>();
        holds::<32>();
        holds::<48>();
        holds::<63>();
    }

    #[test]
    #[should_panic(expected = "does not fit")]
    fn a_number_that_is_too_large_is_refused() {
        Packed::<16>::default()
            .fetch_update(|(first, second)| Some((first + (1 << 16), second)))
            .ok();
    }

    #[test]
    fn nothing_is_lost() {
        const EACH: usize = crate::tests::rounds(20_000);
        let pair = Packed::<40>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let (a, b) = pair.fetch_update(|(a, b)| Some((a + 2, b + 1))).unwrap();
                        assert_eq!(a, 2 * b);
                    }
                });
            }
        });
        assert_eq!(pair.load(), (8 * EACH as u64, 4 * EACH as u64));
    }
}
