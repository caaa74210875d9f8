//! One word's part in an operation, for both mechanisms.

use crate::sync::AtomicU64;

/// The address of a word, its expected value, and its new value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) word: *const AtomicU64,
    pub(super) old: u64,
    pub(super) new: u64,
}

impl Part {
    /// A part of no word, to fill an array.
    pub(super) const NONE: Part = Part {
        word: std::ptr::null(),
        old: 0,
        new: 0,
    };

    /// Returns whether the word gets another value.
    #[inline(always)]
    pub(super) fn changes(&self) -> bool {
        self.old != self.new
    }

    /// Returns the address of the word, exposed: sections and logs access the word by it.
    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        self.word as usize
    }
}
