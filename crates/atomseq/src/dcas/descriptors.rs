//! The descriptors of k-CAS: type-stable memory (GC96 2).
//!
//! A descriptor is taken for one operation, or by a helper for one word of an operation, and is
//! free again afterwards. No word refers to one that is free. `blocks.rs` says where they are.

use crate::sync::{AtomicU64, AtomicUsize, Ordering};

use super::blocks::{BLOCKS, PLACES};
use super::kcas;
use super::part::Part;

/// Sequence numbers begin again after so many.
pub(super) const SEQUENCES: u64 = 1 << 40;

/// How many descriptors references can tell apart.
pub(super) const MAX: usize = PLACES * BLOCKS;

/// What it is used for at this sequence number is past, and its owner has gone.
pub(super) const FREE: u64 = 0;
/// Taken. Its operation, if it has one of its own, will begin or has not ended.
pub(super) const UNDER_WAY: u64 = 1;
/// All words of its own operation are changed.
pub(super) const OVER: u64 = 2;

pub(super) const PHASE: u64 = 3;

const COUNT_SHIFT: u32 = 2;
const SEQUENCE_SHIFT: u32 = 6;

const _: () = assert!(kcas::MAX + 1 < 1 << (SEQUENCE_SHIFT - COUNT_SHIFT));

/// The status at a sequence number, of an operation with so many entries.
#[inline(always)]
pub(super) fn status(sequence: u64, count: usize, phase: u64) -> u64 {
    sequence << SEQUENCE_SHIFT | (count as u64) << COUNT_SHIFT | phase
}

#[inline(always)]
pub(super) fn sequence_of(status: u64) -> u64 {
    status >> SEQUENCE_SHIFT
}

/// How many entries there are.
#[inline(always)]
pub(super) fn count_of(status: u64) -> usize {
    (status >> COUNT_SHIFT) as usize & ((1 << (SEQUENCE_SHIFT - COUNT_SHIFT)) - 1)
}

/// One operation, or a helper's part in one. All zero is one that never was. What two words and a
/// version need lies in two cache lines.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Descriptor {
    /// The sequence number, and below it how many entries there are, and the phase.
    pub(super) status: AtomicU64,
    /// The operation that references to this descriptor belong to, as the version refers to it:
    /// this one's, or the one that is helped.
    pub(super) operation: AtomicU64,
    /// Of an operation, the version is the first.
    pub(super) entries: [Entry; kcas::MAX + 1],
}

/// One word's part of it.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) word: AtomicUsize,
    pub(super) old: AtomicU64,
    pub(super) new: AtomicU64,
}

// Relaxed, both: a fence and the sequence number tell readers whether it belongs together.
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

/// A descriptor for the caller alone to fill.
pub(super) struct Taken {
    pub(super) descriptor: &'static Descriptor,
    pub(super) index: usize,
    /// The number of what it is used for.
    pub(super) sequence: u64,
}

impl Taken {
    /// Gives it back. No word refers to it.
    #[inline(always)]
    pub(super) fn leave(self) {
        let free = status(self.sequence, 0, FREE);
        // Release: pairs with the acquire of the thread that takes it next.
        self.descriptor.status.store(free, Ordering::Release);
    }
}

impl Descriptor {
    /// Takes it for so many entries, if it is free; returns the new sequence number.
    ///
    /// `ALONE`: no other thread takes it meanwhile.
    #[inline(always)]
    pub(super) fn try_take<const ALONE: bool>(&self, count: usize) -> Option<u64> {
        // Acquire: pairs with the release of the thread that left it: what that filled in comes
        // before what this one does.
        let before = self.status.load(Ordering::Acquire);
        if before & PHASE != FREE {
            return None;
        }
        let sequence = next(before);
        let after = status(sequence, count, UNDER_WAY);
        if ALONE {
            // Relaxed: a fence follows before anything else is filled in.
            self.status.store(after, Ordering::Relaxed);
        } else {
            // Acquire: as above.
            let (ours, others) = (Ordering::Acquire, Ordering::Relaxed);
            let taken = self.status.compare_exchange(before, after, ours, others);
            taken.ok()?;
        }
        Some(sequence)
    }

    /// Takes it, whether it is free or not.
    #[allow(dead_code, reason = "models do not measure")]
    #[inline]
    pub(super) fn take_anyway(&self, count: usize) -> u64 {
        let sequence = next(self.status.load(Ordering::Relaxed));
        let after = status(sequence, count, UNDER_WAY);
        self.status.store(after, Ordering::Relaxed);
        sequence
    }

    /// Says that all words of the operation of this number are changed.
    pub(super) fn is_over(&self, sequence: u64) {
        let before = self.status.load(Ordering::Relaxed);
        if sequence_of(before) != sequence || before & PHASE != UNDER_WAY {
            return;
        }
        let over = status(sequence, count_of(before), OVER);
        // Release: pairs with the acquire of a thread that asks: all words are changed. If it
        // fails, another thread has said so.
        let (said, is_said) = (Ordering::Release, Ordering::Relaxed);
        let _ = self.status.compare_exchange(before, over, said, is_said);
    }

    /// Can nobody take it now?
    #[allow(dead_code, reason = "for tests and models")]
    pub(super) fn is_taken(&self) -> bool {
        self.status.load(Ordering::Relaxed) & PHASE != FREE
    }
}

/// The number after that of this status.
#[inline(always)]
fn next(status: u64) -> u64 {
    (sequence_of(status) + 1) % SEQUENCES
}
