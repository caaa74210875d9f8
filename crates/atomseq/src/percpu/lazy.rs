//! An area that is mapped at its first use, so that a structure can be a `static`.
//!
//! ```text
//! base   rseq_offset
//! null   0            nothing is mapped, and no sequence runs
//! b      0            mapped by the thread whose exchange was first; every thread uses b
//! b      o            published: sequences run on b
//! ```
//!
//! A sequence arms itself by a store at the thread's `rseq_offset`, before it reads a gate. No
//! offset that a `static` could hold is harmless in every thread, so a test of the offset comes
//! first. (A permanently closed slot that all unmapped areas share would come too late.)
//!
//! No thread waits for another. Two threads, or a thread and its handler, may map memory at the
//! same time; one exchange decides, and the other memory is freed. A thread that finds `base` set
//! and `rseq_offset` not does the second step itself. Both words change once.

use std::ptr::{NonNull, null_mut};

use crate::sync::{AtomicPtr, AtomicUsize, Ordering};

/// The words of an area that sequences read, as in [`Place`](super::area::Place), but set at the
/// first use.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Lazy {
    pub(super) base: AtomicPtr<u8>,
    pub(super) stride: usize,
    pub(super) rseq_offset: AtomicUsize,
}

impl Lazy {
    /// Returns whether sequences may run. Then neither word changes any more.
    #[inline(always)]
    pub(crate) fn is_published(&self) -> bool {
        // Acquire: pairs with the Release in `publish`, so `base` is seen as well.
        self.rseq_offset.load(Ordering::Acquire) != 0
    }

    /// Returns the address of CPU 0's slot, or `None` if nothing is mapped.
    pub(super) fn base(&self) -> Option<NonNull<u8>> {
        // Acquire: pairs with the Release in `publish`, so the memory is seen as it was prepared.
        NonNull::new(self.base.load(Ordering::Acquire))
    }

    /// Returns the address of CPU 0's slot. Calls `map` if nothing is mapped, and returns `None` if
    /// that returns none.
    ///
    /// `map` returns prepared memory, and `unmap` frees it if another thread was first.
    pub(super) fn map_once(
        &self,
        map: impl FnOnce() -> Option<NonNull<u8>>,
        unmap: impl FnOnce(NonNull<u8>),
    ) -> Option<NonNull<u8>> {
        if let Some(base) = self.base() {
            return Some(base);
        }
        let own = map()?;
        // Release: pairs with the Acquire in `base`. Acquire on failure: pairs with the Release of
        // the thread that was first.
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        match self
            .base
            .compare_exchange(null_mut(), own.as_ptr(), success, failure)
        {
            Ok(_) => Some(own),
            Err(first) => {
                unmap(own);
                NonNull::new(first)
            }
        }
    }

    /// Lets sequences run on what is mapped. `rseq_offset` is 0 if they must not. Costs no atomic
    /// read-modify-write then, nor once they may run.
    pub(super) fn publish(&self, rseq_offset: usize) {
        if rseq_offset == 0 || self.is_published() {
            return;
        }
        // A failed exchange writes nothing: once published, the word is only read.
        // Release: pairs with the Acquire in `is_published`. Relaxed: nothing follows.
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        _ = self
            .rseq_offset
            .compare_exchange(0, rseq_offset, success, failure);
    }
}
