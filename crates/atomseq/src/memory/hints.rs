//! Where free descriptors may be found: bits of two levels that are put right by whoever finds them wrong.
//!
//! ```text
//! leaf words:     a bit a page,      set: exhausted, no descriptor of it is free
//! summary words:  a bit a leaf word, set: all bits of the leaf word are
//! ```
//!
//! A bit is set by a thread that has found nothing below it. It then looks once more, and clears the bit
//! if there is something now. Who has put something below clears the bit if it is set. Both the change
//! below and the change of the bit come before the look at the other in the one order of all
//! `SeqCst` operations, so one of the two sees what the other did.

use crate::sync::{AtomicU64, Ordering};

pub(crate) const EXHAUSTED: u64 = u64::MAX;

/// The bits that lead to a page.
pub(crate) struct Path<'a> {
    pub leaf: &'a AtomicU64,
    pub leaf_bit: u64,
    pub summary: &'a AtomicU64,
    pub summary_bit: u64,
}

impl Path<'_> {
    /// Notes that nothing was free in the page, and looks again.
    pub fn exhaust(&self, has_free: impl FnOnce() -> bool) {
        let before = self.leaf.fetch_or(self.leaf_bit, Ordering::SeqCst);
        if before | self.leaf_bit == EXHAUSTED {
            self.exhaust_leaf();
        }
        if has_free() {
            self.replenish();
        }
    }

    /// Notes that all bits of the leaf word were set, and looks again.
    pub fn exhaust_leaf(&self) {
        self.summary.fetch_or(self.summary_bit, Ordering::SeqCst);
        if self.leaf.load(Ordering::SeqCst) != EXHAUSTED {
            self.summary.fetch_and(!self.summary_bit, Ordering::SeqCst);
        }
    }

    /// Notes that something is free in the page.
    pub fn replenish(&self) {
        clear(self.leaf, self.leaf_bit);
        clear(self.summary, self.summary_bit);
    }
}

fn clear(word: &AtomicU64, bit: u64) {
    if word.load(Ordering::SeqCst) & bit != 0 {
        word.fetch_and(!bit, Ordering::SeqCst);
    }
}
