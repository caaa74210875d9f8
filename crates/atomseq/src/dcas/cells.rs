//! An array of values of one machine word, all 64 bits of it, that an object covers by k-CAS.
//!
//! There a covered word holds 63 bits. The top bits have an array of words of their own.

use super::versioned_words::VersionedWords;
use super::{Cell, StableWord};
use crate::heap::zeros;

/// Values that an object covers that uses k-CAS; zeros at first.
#[derive(Debug)]
pub(crate) struct Cells {
    words: Box<[StableWord]>,
    /// The top bits.
    tops: Box<[StableWord]>,
}

impl Cells {
    /// `None` if there is no memory for so many.
    pub fn new(count: usize) -> Option<Cells> {
        Some(Cells {
            words: zeros(count)?,
            tops: zeros(count)?,
        })
    }

    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// The value of a cell; counts only if the object is still at the version of the beginning.
    pub fn load(&self, object: &VersionedWords, index: usize) -> u64 {
        object.load(&self.words[index]) | object.load(&self.tops[index]) << 63
    }

    /// What has to be stored where.
    pub(super) fn halves(&self, index: usize, value: u64) -> [(&StableWord, u64); 2] {
        [
            (&self.words[index], value & Cell::MAX),
            (&self.tops[index], value >> 63),
        ]
    }
}
