//! The descriptors of k-CAS: type-stable memory (GC96 2).
//!
//! A descriptor is given back by nobody, but found to be free when somebody looks for one: no word refers to it, and nobody is
//! in its operation. `blocks.rs` says where they are.

use crate::sync::{AtomicU64, AtomicUsize, Ordering};

use super::blocks::{BLOCKS, PER_BLOCK};
use super::kcas;

/// Sequence numbers begin again after so many.
pub(super) const SEQUENCES: u64 = 1 << 38;

/// The most descriptors there can be.
pub(super) const MOST: usize = PER_BLOCK * BLOCKS;

pub(super) const DECISION: u64 = 3;
pub(super) const UNDECIDED: u64 = 0;
pub(super) const SUCCEEDED: u64 = 1;
pub(super) const FAILED: u64 = 2;

const COUNT_SHIFT: u32 = 2;
const SEQUENCE_SHIFT: u32 = 6;

const _: () = assert!(kcas::MOST + 1 < 1 << (SEQUENCE_SHIFT - COUNT_SHIFT));

/// The status of an operation on so many words that nobody has decided.
#[inline(always)]
pub(super) fn undecided(sequence: u64, count: usize) -> u64 {
    sequence << SEQUENCE_SHIFT | (count as u64) << COUNT_SHIFT | UNDECIDED
}

#[inline(always)]
pub(super) fn sequence_of(status: u64) -> u64 {
    status >> SEQUENCE_SHIFT
}

/// How many words there are.
#[inline(always)]
pub(super) fn count_of(status: u64) -> usize {
    (status >> COUNT_SHIFT) as usize & ((1 << (SEQUENCE_SHIFT - COUNT_SHIFT)) - 1)
}

/// One operation. All zero is one that never was. What three words need lies in two cache lines.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Descriptor {
    /// The sequence number, and below it how many words there are, and the decision.
    pub(super) status: AtomicU64,
    pub(super) helpers: AtomicU64,
    /// The number of the last operation whose owner has gone.
    pub(super) left: AtomicU64,
    /// The entries whose references were put into words, a bit each, of an operation that has failed.
    pub(super) installed: AtomicU64,
    pub(super) entries: [Entry; kcas::MOST + 1],
}

/// One word's part of it.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) word: AtomicUsize,
    pub(super) old: AtomicU64,
    pub(super) new: AtomicU64,
    /// The number of the last operation whose reference was replaced in the word.
    pub(super) released: AtomicU64,
}

/// A descriptor for the caller alone to fill.
pub(super) struct Taken {
    pub(super) descriptor: &'static Descriptor,
    pub(super) index: usize,
    /// The number of the operation that it is for.
    pub(super) sequence: u64,
}

impl Descriptor {
    /// Takes it for an operation on so many words, if it is free; returns the operation's number.
    ///
    /// `ALONE`: nobody else takes it meanwhile.
    #[inline(always)]
    pub(super) fn try_take<const ALONE: bool>(&self, count: usize) -> Option<u64> {
        let before = self.is_free()?;
        let sequence = next(before);
        let undecided = undecided(sequence, count);
        if ALONE {
            // Relaxed: `exchange` makes a fence before it fills in the rest.
            self.status.store(undecided, Ordering::Relaxed);
        } else {
            // Acquire: once free, it is so until its number changes, and then it is somebody else's.
            let (ours, others) = (Ordering::AcqRel, Ordering::Relaxed);
            let taken = self
                .status
                .compare_exchange(before, undecided, ours, others);
            taken.ok()?;
        }
        if before & DECISION == FAILED {
            self.installed.store(0, Ordering::Relaxed);
        }
        Some(sequence)
    }

    /// Takes it, whether it is free or not.
    #[allow(dead_code, reason = "models do not measure")]
    #[inline]
    pub(super) fn take_anyway(&self, count: usize) -> u64 {
        let sequence = next(self.status.load(Ordering::Relaxed));
        self.status
            .store(undecided(sequence, count), Ordering::Relaxed);
        sequence
    }

    /// Its status, if no word refers to it and nobody is in its operation.
    #[inline]
    pub(super) fn is_free(&self) -> Option<u64> {
        let status = self.status.load(Ordering::SeqCst);
        let sequence = sequence_of(status);
        if sequence == 0 {
            return Some(status);
        }
        // Acquire: pairs with the release of the owner that goes.
        let has_left = self.left.load(Ordering::Acquire) == sequence;
        // SeqCst: after the look at the status; pairs with the helper's, in the other order.
        if !has_left || self.helpers.load(Ordering::SeqCst) != 0 {
            return None;
        }
        let put = match status & DECISION {
            UNDECIDED => return None,
            SUCCEEDED => u64::MAX,
            // Relaxed: those who put them in have gone.
            _ => self.installed.load(Ordering::Relaxed),
        };
        let entries = &self.entries[..count_of(status)];
        let is_released = |(number, entry): (usize, &Entry)| {
            // Acquire: pairs with the release of whoever replaced the reference.
            put & 1 << number == 0 || entry.released.load(Ordering::Acquire) == sequence
        };
        let all = entries.iter().enumerate().all(is_released);
        all.then_some(status)
    }
}

/// The number after that of this status. Zero is that of an operation that never was.
#[inline(always)]
fn next(status: u64) -> u64 {
    ((sequence_of(status) + 1) % SEQUENCES).max(1)
}
