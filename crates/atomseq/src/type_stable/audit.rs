//! Iterating over all descriptors of a pool, and finding leaked ones (GC96, sections 2 and 5.1).
//!
//! `unclaimed` describes the word that this uses.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::descriptor::Descriptor;
use super::free::Free;
use super::moment::{Moment, whole_milliseconds};
use super::page::Page;
use super::pool::{Allocated, Pool};
use super::reference::Reference;
use super::unclaimed::Look;

/// The counts of an [audit](Pool::audit).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// The number of descriptors that were allocated when the audit visited them.
    pub allocated: usize,
    /// The number of them that were not claimed for long enough.
    pub unclaimed: usize,
}

impl<T: Descriptor> Pool<T> {
    /// Iterates over the allocated descriptors, each in its state when the iterator reaches it.
    ///
    /// Takes no lock. A descriptor that is allocated or freed meanwhile may or may not be included.
    pub fn allocated(&self) -> impl Iterator<Item = Reference<'_, T>> {
        let pages = self.shared().pages().map(|(_, _, page)| page);
        pages
            .filter(|page| page.load().used > 0)
            .flat_map(|page| (0..page.capacity).filter_map(move |index| allocated(page, index)))
    }

    /// Iterates over the descriptors, free ones included, of each page with any allocated.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = &T> {
        let pages = self.shared().pages().map(|(_, _, page)| page);
        pages.filter(|page| page.load().used > 0).flat_map(|page| {
            (0..page.capacity).map(move |index| {
                // SAFETY: the pool is borrowed for the lifetime of the result, and a descriptor of
                // it is a valid shared `T`, allocated or free.
                unsafe { page.descriptor(index).cast::<T>().as_ref() }
            })
        })
    }

    /// Finds allocated descriptors that were not claimed for longer than `time`, and passes each to
    /// `found`. A thread that exits before it stores its descriptor in a structure leaves one, for
    /// example.
    ///
    /// A descriptor counts as claimed when it is allocated and whenever [`Reference::claim`] is
    /// called. Before an audit, walk through your structures and claim everything they hold. Also
    /// claim what a thread may hold for longer than `time` outside any structure, and what it is
    /// about to put into a structure or take out, because your walk may have passed that place. The
    /// time starts with the first audit that finds a descriptor unclaimed, and restarts with each
    /// claim.
    ///
    /// GC96 uses t_stable as the time. It is rounded up to milliseconds, and restarts after more
    /// than 12 days without an audit. If `time` is zero, an audit finds all that is allocated,
    /// claimed or not. Otherwise it finds nothing if the system does not report the time. Wait-free
    /// apart from `found`, for a given number of pages; costs two atomic instructions for each
    /// descriptor that was claimed since the last audit. Two concurrent audits may both find a
    /// descriptor, but only one can reclaim it.
    ///
    /// ```
    /// use atomseq::type_stable::Pool;
    /// use std::sync::atomic::AtomicU64;
    /// use std::time::Duration;
    ///
    /// let pool = Pool::<AtomicU64>::new();
    /// let kept = pool.allocate()?;
    /// // This one was meant for a structure, but is leaked.
    /// pool.allocate()?.into_raw();
    ///
    /// let mut found = 0;
    /// for _round in 0..2 {
    ///     kept.reference().claim();
    ///     pool.audit(Duration::from_millis(5), |unclaimed| {
    ///         found += 1;
    ///         // SAFETY: its address was discarded above, so no thread uses it.
    ///         drop(unsafe { unclaimed.reclaim() });
    ///     });
    ///     std::thread::sleep(Duration::from_millis(10));
    /// }
    /// assert_eq!(found, 1);
    /// assert_eq!(pool.allocated().count(), 1);
    /// # Ok::<(), atomseq::type_stable::Error>(())
    /// ```
    pub fn audit<'pool>(
        &'pool self,
        time: Duration,
        found: impl FnMut(Unclaimed<'pool, T>),
    ) -> Audit {
        self.audit_by(time, super::now, found)
    }

    /// Calls `claim_all`, which claims all that the structures hold, and then finds what was not
    /// claimed for longer than `time` when this function was called.
    ///
    /// So a descriptor that is found either was in no structure while `claim_all` was there, nor is
    /// now; or the thread that has put it there since had held it for longer than `time`. If the
    /// time went on until each look, that thread might have held it for less.
    pub(crate) fn audit_after<'pool>(
        &'pool self,
        time: Duration,
        claim_all: impl FnOnce(),
        found: impl FnMut(Unclaimed<'pool, T>),
    ) -> Audit {
        let start = super::now();
        claim_all();
        self.audit_with(time, super::now, |look| look.before(start), found)
    }

    pub(super) fn audit_by<'pool>(
        &'pool self,
        time: Duration,
        now: impl Fn() -> Option<Moment>,
        found: impl FnMut(Unclaimed<'pool, T>),
    ) -> Audit {
        self.audit_with(time, now, |look| look, found)
    }

    fn audit_with<'pool, N: Fn() -> Option<Moment>>(
        &'pool self,
        time: Duration,
        now: N,
        adapt: impl FnOnce(Look<N>) -> Look<N>,
        mut found: impl FnMut(Unclaimed<'pool, T>),
    ) -> Audit {
        // Relaxed: the number orders no other data.
        let number = self.audits.fetch_add(1, Ordering::Relaxed);
        let look = adapt(Look::new(number, now, whole_milliseconds(time)));
        let mut audit = Audit::default();
        for reference in self.allocated() {
            audit.allocated += 1;
            let word = &reference.framed().header.unclaimed;
            if look.finds_unclaimed(word, || reference.is_current()) {
                audit.unclaimed += 1;
                found(Unclaimed {
                    pool: self,
                    reference,
                });
            }
        }
        audit
    }
}

fn allocated<T: Descriptor>(page: Page<'_>, index: usize) -> Option<Reference<'_, T>> {
    // Acquire: pairs with the Release in `unclaimed::begin`, which comes after the descriptor was
    // marked as claimed.
    let version = page.header(index).version.load(Ordering::Acquire);
    // SAFETY: the descriptor belongs to a pool that is borrowed as long as the page.
    (version % 2 == 1).then(|| unsafe { Reference::new(page.descriptor(index).cast(), version) })
}

/// An allocated descriptor that an audit found unclaimed.
pub struct Unclaimed<'pool, T: Descriptor> {
    pool: &'pool Pool<T>,
    reference: Reference<'pool, T>,
}

impl<'pool, T: Descriptor> Unclaimed<'pool, T> {
    /// Returns a reference to the unclaimed allocation.
    pub fn reference(&self) -> Reference<'pool, T> {
        self.reference
    }

    /// Returns the contents, which may identify the former owner.
    pub fn descriptor(&self) -> &'pool T {
        self.reference.descriptor()
    }

    /// Returns whether the descriptor has not been claimed since it was found.
    pub(crate) fn is_still(&self) -> bool {
        // Relaxed: the caller has acquired what comes after a claim that it must not miss.
        let word = &self.reference.framed().header.unclaimed;
        word.load(Ordering::Relaxed) != 0
    }

    /// Takes the descriptor over as a new allocation, and ends all references to the old one.
    /// Returns `None` if the old allocation has already ended.
    ///
    /// # Safety
    ///
    /// The former owner must not use its allocation any more: it never drops the [`Allocated`],
    /// [adopts](Pool::adopt) the descriptor, or treats it as its own.
    pub unsafe fn reclaim(self) -> Option<Allocated<'pool, T>> {
        self.reference.renew().then(|| {
            // SAFETY: `renew` returned true, so the descriptor is allocated and this thread started
            // that allocation. By the caller's contract no other thread owns it.
            unsafe { self.pool.adopt(self.reference.descriptor()) }
        })
    }
}

impl<T: Descriptor> fmt::Debug for Unclaimed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unclaimed").field(&self.reference).finish()
    }
}
