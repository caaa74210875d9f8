//! The descriptors of k-CAS, in type-stable memory (GC96, section 2).
//!
//! An owner takes a descriptor for one operation, and a helper takes one for one word of an
//! operation. Each marks it free afterwards; no word refers to a free descriptor. `blocks.rs`
//! allocates them.

use crate::sync::{AtomicU64, AtomicUsize, Ordering};

use super::blocks::{BLOCKS, PLACES};
use super::kcas;
use super::part::Part;

/// Sequence numbers wrap around at this number.
pub(super) const SEQUENCES: u64 = 1 << 40;

/// How many descriptors a reference can distinguish.
pub(super) const MAX: usize = PLACES * BLOCKS;

/// The use of this sequence number is past, and its owner or helper has left the descriptor.
pub(super) const FREE: u64 = 0;
/// Taken. Its operation, if it has one of its own, is not over.
pub(super) const UNDER_WAY: u64 = 1;
/// All words of its own operation are changed.
pub(super) const OVER: u64 = 2;

pub(super) const PHASE: u64 = 3;

const COUNT_SHIFT: u32 = 2;
const SEQUENCE_SHIFT: u32 = 6;

const _: () = assert!(kcas::MAX + 1 < 1 << (SEQUENCE_SHIFT - COUNT_SHIFT));

/// Returns the status of a descriptor with this sequence number, number of entries, and phase.
#[inline(always)]
pub(super) fn status(sequence: u64, count: usize, phase: u64) -> u64 {
    sequence << SEQUENCE_SHIFT | (count as u64) << COUNT_SHIFT | phase
}

#[inline(always)]
pub(super) fn sequence_of(status: u64) -> u64 {
    status >> SEQUENCE_SHIFT
}

/// Returns the number of entries.
#[inline(always)]
pub(super) fn count_of(status: u64) -> usize {
    (status >> COUNT_SHIFT) as usize & ((1 << (SEQUENCE_SHIFT - COUNT_SHIFT)) - 1)
}

/// An operation, or a helper's part in one. All zeros is one that was never used. The entries of
/// two words and a version lie in two cache lines.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Descriptor {
    /// The sequence number, the number of entries, and the phase.
    pub(super) status: AtomicU64,
    /// The operation that references to this descriptor belong to, as a reference: the owner's, or
    /// the one that is helped.
    pub(super) operation: AtomicU64,
    /// The parts. In an operation, the version comes first.
    pub(super) entries: [Entry; kcas::MAX + 1],
}

/// One word's part.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) word: AtomicUsize,
    pub(super) old: AtomicU64,
    pub(super) new: AtomicU64,
}

// Relaxed in both: a fence and the sequence number show readers whether the fields are consistent.
impl Entry {
    #[inline(always)]
    pub(super) fn fill(&self, part: &Part) {
        self.word.store(part.word as usize, Ordering::Relaxed);
        self.old.store(part.old, Ordering::Relaxed);
        self.new.store(part.new, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn part(&self) -> Part {
        Part {
            word: self.word.load(Ordering::Relaxed) as *const AtomicU64,
            old: self.old.load(Ordering::Relaxed),
            new: self.new.load(Ordering::Relaxed),
        }
    }
}

/// A descriptor that only its taker fills in.
pub(super) struct Taken {
    pub(super) descriptor: &'static Descriptor,
    pub(super) index: usize,
    /// The sequence number of this use.
    pub(super) sequence: u64,
}

impl Taken {
    /// Marks the descriptor free. No word refers to it.
    #[inline(always)]
    pub(super) fn leave(self) {
        let free = status(self.sequence, 0, FREE);
        // Release: pairs with the acquire in `try_take` of the thread that takes it next.
        self.descriptor.status.store(free, Ordering::Release);
    }
}

impl Descriptor {
    /// Takes the descriptor for this many entries if it is free. Returns the new sequence number.
    ///
    /// With `ALONE`, only this thread takes descriptors here, and no compare-and-swap is needed.
    #[inline(always)]
    pub(super) fn try_take<const ALONE: bool>(&self, count: usize) -> Option<u64> {
        // Acquire: pairs with the release in `leave`, so the last use comes before this one.
        let before = self.status.load(Ordering::Acquire);
        if before & PHASE != FREE {
            return None;
        }
        let sequence = next(before);
        let after = status(sequence, count, UNDER_WAY);
        if ALONE {
            // Relaxed: a release fence follows before the descriptor is filled in.
            self.status.store(after, Ordering::Relaxed);
        } else {
            // Acquire: pairs with the release in `leave`.
            let (ours, others) = (Ordering::Acquire, Ordering::Relaxed);
            let taken = self.status.compare_exchange(before, after, ours, others);
            taken.ok()?;
        }
        Some(sequence)
    }

    /// Takes the descriptor whether or not it is free, to measure.
    #[allow(dead_code, reason = "models do not measure")]
    #[inline]
    pub(super) fn take_anyway(&self, count: usize) -> u64 {
        let sequence = next(self.status.load(Ordering::Relaxed));
        let after = status(sequence, count, UNDER_WAY);
        self.status.store(after, Ordering::Relaxed);
        sequence
    }

    /// Stores OVER if the descriptor still belongs to this sequence number: all words of the
    /// operation are changed.
    pub(super) fn mark_over(&self, sequence: u64) {
        let before = self.status.load(Ordering::Relaxed);
        if sequence_of(before) != sequence || before & PHASE != UNDER_WAY {
            return;
        }
        let over = status(sequence, count_of(before), OVER);
        // Release: pairs with the acquire in `is_under_way`, so all changes are visible to a thread
        // that reads OVER. If it fails, another thread has stored OVER.
        let (said, is_said) = (Ordering::Release, Ordering::Relaxed);
        let _ = self.status.compare_exchange(before, over, said, is_said);
    }

    /// Returns whether the descriptor is in use.
    #[allow(dead_code, reason = "for tests and models")]
    pub(super) fn is_taken(&self) -> bool {
        self.status.load(Ordering::Relaxed) & PHASE != FREE
    }
}

/// Returns the sequence number that follows the one in this status.
#[inline(always)]
fn next(status: u64) -> u64 {
    (sequence_of(status) + 1) % SEQUENCES
}
