//! k-CAS of two words without a version, to measure it by itself.

use super::{Word, kcas};

/// Two words that change together by k-CAS. Without `RECLAIMS` descriptors are used again whether they are free or not, and nobody
/// says which are: what is left is what k-CAS costs without reclamation.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Bare<const RECLAIMS: bool> {
    first: Word,
    /// Of a cache line of its own, as the words of others that it is compared with.
    _rest: [u64; 15],
    second: Word,
}

impl<const RECLAIMS: bool> Bare<RECLAIMS> {
    /// Both words, each at a time of its own.
    #[inline]
    pub fn load(&self) -> [u64; 2] {
        [&self.first, &self.second].map(|word| kcas::load(word.raw()))
    }

    /// Changes both if they are as expected.
    ///
    /// # Safety
    ///
    /// Without `RECLAIMS` no other thread uses it, and both words change.
    ///
    /// # Panics
    ///
    /// If a new value is larger than [`Word::MOST`].
    #[inline]
    pub unsafe fn exchange(&self, old: [u64; 2], new: [u64; 2]) -> bool {
        assert!(
            (new[0] | new[1]) <= Word::MOST,
            "a covered word holds values below 2^63"
        );
        let part = |index: usize, word: &Word| kcas::Part {
            word: word.raw(),
            old: old[index],
            new: new[index],
        };
        let mut parts = [part(0, &self.first), part(1, &self.second)];
        // SAFETY: the words are this pair's, and whoever is in an operation on one of them borrows it; the rest is the caller's
        // promise.
        unsafe { kcas::exchange_with::<RECLAIMS>(&mut parts) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count<const RECLAIMS: bool>() {
        let pair = Bare::<RECLAIMS>::default();
        for step in 0..1000 {
            // SAFETY: this thread alone has it, and both words change.
            assert!(unsafe { pair.exchange([step, 2 * step], [step + 1, 2 * step + 2]) });
            // SAFETY: as above, if they did.
            assert!(!unsafe { pair.exchange([step, 2 * step], [step + 1, 2 * step + 2]) });
        }
        assert_eq!(pair.load(), [1000, 2000]);
    }

    #[test]
    fn both_change_with_reclamation_and_without() {
        let other = Bare::<true>::default();
        // SAFETY: with reclamation there is nothing to keep to.
        assert!(unsafe { other.exchange([0, 0], [7, 8]) });
        count::<false>();
        count::<true>();
        count::<false>();
        assert_eq!(other.load(), [7, 8]);
    }
}
