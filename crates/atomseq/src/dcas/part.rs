//! One word's part in an exchange, as both mechanisms take it.

use crate::sync::AtomicU64;

/// Where a word is, what it should hold, what it shall hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) word: *const AtomicU64,
    pub(super) old: u64,
    pub(super) new: u64,
}

impl Part {
    /// Where the word is, exposed: sections and logs reach it by that.
    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        self.word as usize
    }
}
