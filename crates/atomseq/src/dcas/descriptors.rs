//! The descriptors of k-CAS, and blocks of them: type-stable memory (GC96 2).
//!
//! An operation has a block to itself while it lasts. What a block gives is a descriptor that no word refers to and nobody
//! helps; it is given back by nobody, but found to be free when somebody looks for one. `blocks.rs` says where blocks are.

use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::blocks::{BLOCKS, PER_BLOCK};
use super::kcas;

/// Sequence numbers begin again after so many.
pub(super) const SEQUENCES: u64 = 1 << 38;

/// The most descriptors there can be.
pub(super) const MOST: usize = PER_BLOCK * BLOCKS;

/// One operation. All zero is one that never was.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Descriptor {
    /// The sequence number, shifted by two; below, the decision.
    pub(super) status: AtomicU64,
    pub(super) helpers: AtomicU64,
    pub(super) count: AtomicU64,
    pub(super) entries: [Entry; kcas::MOST + 1],
}

/// One word's part of it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) word: AtomicUsize,
    pub(super) old: AtomicU64,
    pub(super) new: AtomicU64,
    /// The number of the last operation whose reference was put into the word.
    pub(super) installed: AtomicU64,
    /// The number of the last one whose reference was replaced there.
    pub(super) released: AtomicU64,
}

#[repr(C, align(64))]
pub(super) struct Block {
    pub(super) busy: AtomicU32,
    /// Where the last search ended.
    pub(super) next: AtomicU32,
    pub(super) descriptors: [Descriptor; PER_BLOCK],
}

/// A descriptor for the caller alone to fill.
pub(super) struct Taken {
    block: &'static Block,
    pub(super) descriptor: &'static Descriptor,
    pub(super) index: usize,
    /// The number of the operation that it is for.
    pub(super) sequence: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `try_take`.
        self.block.busy.store(0, Ordering::Release);
    }
}

impl Block {
    /// A free descriptor, unless there is none here or somebody else is in the block, whose number this is.
    #[inline]
    pub(super) fn try_take(&'static self, number: usize) -> Option<Taken> {
        // Acquire: pairs with the release in `Taken`'s drop.
        if self.busy.load(Ordering::Relaxed) != 0 || self.busy.swap(1, Ordering::Acquire) != 0 {
            return None;
        }
        let start = self.next.load(Ordering::Relaxed) as usize;
        for step in 0..PER_BLOCK {
            let place = (start + step) % PER_BLOCK;
            let descriptor = &self.descriptors[place];
            if kcas::is_free(descriptor) {
                return Some(self.taken(number, place));
            }
        }
        self.busy.store(0, Ordering::Release);
        None
    }

    /// The next descriptor, whether it is free or not.
    #[allow(dead_code, reason = "models do not measure")]
    pub(super) fn take_anyway(&'static self, number: usize) -> Taken {
        let place = self.next.load(Ordering::Relaxed) as usize % PER_BLOCK;
        self.taken(number, place)
    }

    #[inline]
    fn taken(&'static self, number: usize, place: usize) -> Taken {
        self.next.store(place as u32 + 1, Ordering::Relaxed);
        let descriptor = &self.descriptors[place];
        let before = descriptor.status.load(Ordering::Relaxed) >> 2;
        // Zero is that of an operation that never was.
        let sequence = ((before + 1) % SEQUENCES).max(1);
        Taken {
            block: self,
            descriptor,
            index: number * PER_BLOCK + place,
            sequence,
        }
    }
}
