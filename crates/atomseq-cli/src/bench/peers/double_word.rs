//! Two words side by side, changed by a double-width compare-and-swap: the heads of Treiber's
//! stacks, whose second word is a tag against the ABA problem.
//!
//! By `dcas::Adjacent` where that is one instruction in place, beside two plain loads to begin
//! with. The crate portable-atomic, which stands in for it elsewhere, calls a function for each
//! that it has looked for at run time: with it a pair on a stack takes about 8 % longer.

#[cfg(atomseq_sections)]
use atomseq::dcas::{Adjacent, Cell};
#[cfg(not(atomseq_sections))]
use portable_atomic::{AtomicU128, Ordering};

/// What the first word holds at most.
#[cfg(atomseq_sections)]
pub const MAX: u64 = Cell::MAX;
/// What the first word holds at most.
#[cfg(not(atomseq_sections))]
pub const MAX: u64 = u64::MAX;

/// A word and its tag.
#[cfg(atomseq_sections)]
pub struct DoubleWord(Adjacent);

/// A word and its tag.
#[cfg(not(atomseq_sections))]
pub struct DoubleWord(AtomicU128);

/// What both held.
#[derive(Clone, Copy)]
pub struct Held {
    /// The word.
    pub word: u64,
    tag: u64,
}

#[cfg(atomseq_sections)]
impl DoubleWord {
    /// With this word.
    pub fn new(word: u64) -> Self {
        Self(Adjacent::new(word, 0))
    }

    /// What they hold, each at a time of its own; Acquire.
    #[inline(always)]
    pub fn load(&self) -> Held {
        let (word, tag) = self.0.guess();
        Held { word, tag }
    }

    /// Replaces the word and takes the next tag, if both are still as they were; else what they
    /// are. Acquire and Release.
    #[inline(always)]
    pub fn replace(&self, held: Held, word: u64) -> Result<(), Held> {
        let next = (word, held.tag.wrapping_add(1) & MAX);
        let replaced = self.0.compare_exchange((held.word, held.tag), next);
        replaced.map_err(|(word, tag)| Held { word, tag })
    }
}

#[cfg(not(atomseq_sections))]
impl DoubleWord {
    /// With this word.
    pub fn new(word: u64) -> Self {
        Self(AtomicU128::new(u128::from(word)))
    }

    /// What they hold; Acquire.
    #[inline(always)]
    pub fn load(&self) -> Held {
        Held::of(self.0.load(Ordering::Acquire))
    }

    /// Replaces the word and takes the next tag, if both are still as they were; else what they
    /// are. Acquire and Release.
    #[inline(always)]
    pub fn replace(&self, held: Held, word: u64) -> Result<(), Held> {
        let join = |word, tag| u128::from(word) | u128::from(tag) << 64;
        let (old, new): (u128, u128) = (
            join(held.word, held.tag),
            join(word, held.tag.wrapping_add(1)),
        );
        let replaced = (self.0).compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire);
        replaced.map(drop).map_err(Held::of)
    }
}

#[cfg(not(atomseq_sections))]
impl Held {
    fn of(both: u128) -> Self {
        Self {
            word: both as u64,
            tag: (both >> 64) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_comes_back_has_another_tag() {
        let double = DoubleWord::new(MAX);
        let before = double.load();
        assert!(double.replace(before, 5).is_ok());
        assert!(double.replace(double.load(), MAX).is_ok());
        let now = double.replace(before, 6).err();
        assert_eq!(now.map(|held| held.word), Some(MAX));
    }
}
