//! The thread that owns a block of descriptors. Only this thread takes descriptors there, without
//! atomic instructions, until it releases the block or exits.
//!
//! ```text
//! owned        word = me; no other thread changes it, or takes a descriptor
//! releasing    word: me -> none
//! claiming     word: none, or an exited thread -> me
//! reserving    word: none, or an exited thread -> shared or kept, permanently
//! ```
//!
//! The word also counts the claims. Without the count, a thread that finds that the owner has
//! exited, and is stopped before its claim, could later replace a new owner with the same thread
//! name.
//!
//! A thread keeps its block while it lives, even if it sleeps. The kernel reports whether a thread
//! has exited; its accesses are over by then. In the child of a `fork`, the kernel knows nothing of
//! the parent's threads. So the forking thread still owns its block there, and those of the other
//! threads stay unused, in the child's own children too.

use crate::platform;
use crate::sync::{AtomicU64, Ordering};

/// The owner of a block: the [name](platform::thread_name) of a thread, and above it the number of
/// claims so far. All zeros means no thread.
pub(super) struct Owner {
    word: AtomicU64,
}

/// The name in the word of a block without an owner.
const NONE: u64 = 0;

/// The bits of the thread's name.
const NAME: u64 = (1 << platform::NAME_BITS) - 1;

/// The unit of the count above the name.
const CLAIM: u64 = NAME + 1;

/// Reserved permanently: threads take descriptors by an atomic instruction. No thread has so low a
/// name.
pub(super) const SHARED: u64 = 1;

/// Reserved permanently, for measurements.
pub(super) const KEPT: u64 = 2;

impl Owner {
    #[allow(dead_code, reason = "for models: the library's are made as zeros")]
    pub(super) fn new() -> Owner {
        Owner {
            word: AtomicU64::new(NONE),
        }
    }

    /// Returns whether the word is this one.
    #[inline(always)]
    pub(super) fn is(&self, word: u64) -> bool {
        // Relaxed: no other thread makes the calling thread the owner or replaces it, and a
        // reservation is permanent.
        self.word.load(Ordering::Relaxed) == word
    }

    /// Makes this thread the owner if no live thread is. Returns the new word.
    pub(super) fn claim(&self, me: u64) -> Option<u64> {
        // The block may already be this thread's: a former thread had the same name.
        let before = self.if_unowned(me)?;
        let word = before.wrapping_add(CLAIM) & !NAME | me;
        self.becomes(before, word).then_some(word)
    }

    /// Reserves the block permanently as [`SHARED`] or [`KEPT`], if no live thread owns it.
    pub(super) fn reserve(&self, as_what: u64) -> bool {
        let before = self.if_unowned(NONE);
        before.is_some_and(|before| self.becomes(before, as_what))
    }

    /// Returns the word if no thread owns the block, or this one does, or the owner has exited.
    fn if_unowned(&self, me: u64) -> Option<u64> {
        // Acquire: pairs with the release of the owner's claim, so that the kernel is asked about
        // that thread and not about an earlier one of the same name.
        let before = self.word.load(Ordering::Acquire);
        let name = before & NAME;
        let is_unowned = name == NONE || name == me || platform::has_ended(name);
        is_unowned.then_some(before)
    }

    /// Leaves the block to other threads.
    pub(super) fn release(&self, word: u64) {
        self.becomes(word, word & !NAME | NONE);
    }

    fn becomes(&self, from: u64, to: u64) -> bool {
        // Acquire and release pair with each other: the accesses of the last owner come before
        // those of the next one. For an exited owner, the kernel orders them.
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        self.word
            .compare_exchange(from, to, success, failure)
            .is_ok()
    }
}
