//! k-CAS of two words with nothing around it, to measure it by itself.

use super::{Cell, kcas};

/// Two words that change together by k-CAS. Without `RECLAIMS`, descriptors are reused whether or
/// not they are free, and the thread does not mark them free. The rest is the cost of k-CAS without
/// reclamation.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Bare<const RECLAIMS: bool> {
    first: Cell,
    version: Cell,
    /// Gives `second` a cache line of its own, like the words that it is compared with.
    _rest: [u64; 14],
    second: Cell,
}

impl<const RECLAIMS: bool> Bare<RECLAIMS> {
    /// Returns both words as of one time.
    #[inline]
    pub fn load(&self) -> [u64; 2] {
        self.snapshot().0
    }

    #[inline(always)]
    fn snapshot(&self) -> ([u64; 2], u64) {
        loop {
            let number = kcas::begin(self.version.raw());
            let values = [&self.first, &self.second].map(|word| kcas::load(word.raw()));
            if kcas::is_still(self.version.raw(), number) {
                return (values, number);
            }
        }
    }

    /// Changes both words if they have their old values, and returns whether they had.
    ///
    /// # Safety
    ///
    /// Without `RECLAIMS`, no other thread uses this pair.
    ///
    /// # Panics
    ///
    /// If a new value is larger than [`Cell::MAX`].
    #[inline]
    pub unsafe fn exchange(&self, old: [u64; 2], new: [u64; 2]) -> bool {
        assert!(
            (new[0] | new[1]) <= Cell::MAX,
            "a covered word holds values below 2^63"
        );
        let part = |index: usize, word: &Cell| super::part::Part {
            word: word.raw(),
            old: old[index],
            new: new[index],
        };
        let parts = [part(0, &self.first), part(1, &self.second)];
        loop {
            let (found, number) = self.snapshot();
            if found != old {
                return false;
            }
            // SAFETY: two different words of this pair, which had these values at this version. A
            // thread in an operation on them borrows the pair. Without `RECLAIMS`, the caller
            // promises that no other thread does.
            let done = unsafe {
                kcas::exchange_with::<RECLAIMS>(self.version.raw(), number, number + 1, &parts)
            };
            if done {
                return true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count<const RECLAIMS: bool>() {
        const EACH: u64 = crate::tests::rounds(1000) as u64;
        let pair = Bare::<RECLAIMS>::default();
        for step in 0..EACH {
            // SAFETY: `pair` is a local of this thread.
            assert!(unsafe { pair.exchange([step, 2 * step], [step + 1, 2 * step + 2]) });
            // SAFETY: `pair` is a local of this thread.
            assert!(!unsafe { pair.exchange([step, 2 * step], [step + 1, 2 * step + 2]) });
        }
        assert_eq!(pair.load(), [EACH, 2 * EACH]);
    }

    #[test]
    fn both_change_with_reclamation_and_without() {
        let other = Bare::<true>::default();
        // SAFETY: with `RECLAIMS` the function has no condition.
        assert!(unsafe { other.exchange([0, 0], [7, 8]) });
        count::<false>();
        count::<true>();
        count::<false>();
        assert_eq!(other.load(), [7, 8]);
    }
}
