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
    /// Returns the address of the word, exposed: sections and logs access the word by it.
    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        self.word as usize
    }
}
