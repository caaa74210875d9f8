//! An array of machine words with all 64 bits, for structures that use k-CAS. A covered word holds
//! 63 bits, so the top bits lie in an array of covered words of their own.

use super::versioned_words::VersionedWords;
use super::{Cell, StableWord};
use crate::heap::zeros;

/// Values that a structure covers by k-CAS. All zero at first.
#[derive(Debug)]
pub(crate) struct Cells {
    words: Box<[StableWord]>,
    /// The top bit of each value, as 0 or 1.
    tops: Box<[StableWord]>,
}

impl Cells {
    /// Creates `count` cells. Returns `None` if there is no memory for them.
    pub fn new(count: usize) -> Option<Cells> {
        Some(Cells {
            words: zeros(count)?,
            tops: zeros(count)?,
        })
    }

    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns the value of a cell. It counts only if the version is still that of `begin`.
    pub fn load(&self, object: &VersionedWords, index: usize) -> u64 {
        object.load(&self.words[index]) | object.load(&self.tops[index]) << 63
    }

    /// Returns the two words of a cell, and what to store in each.
    pub(super) fn halves(&self, index: usize, value: u64) -> [(&StableWord, u64); 2] {
        [
            (&self.words[index], value & Cell::MAX),
            (&self.tops[index], value >> 63),
        ]
    }
}
