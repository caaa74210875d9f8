//! Walking through all descriptors of a type, and finding those that nobody has any more (GC96 2
//! and 5.1).
//!
//! `unclaimed` tells by which word.

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

/// What an [audit](Pool::audit) has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// How many descriptors were allocated when the audit came by.
    pub allocated: usize,
    /// How many of them nobody has claimed for long enough.
    pub unclaimed: usize,
}

impl<T: Descriptor> Pool<T> {
    /// Goes through all descriptors that are allocated, each as it is when the iterator comes by.
    ///
    /// Nothing is locked: what is allocated and freed meanwhile may or may not be among them.
    pub fn allocated(&self) -> impl Iterator<Item = Reference<'_, T>> {
        let pages = self.shared().pages().map(|(_, _, page)| page);
        pages
            .filter(|page| page.load().used > 0)
            .flat_map(|page| (0..page.capacity).filter_map(move |index| allocated(page, index)))
    }

    /// Goes through the descriptors of each page of which any is allocated, the free ones included.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = &T> {
        let pages = self.shared().pages().map(|(_, _, page)| page);
        pages.filter(|page| page.load().used > 0).flat_map(|page| {
            (0..page.capacity).map(move |index| {
                // SAFETY: a descriptor of a pool that is borrowed for as long: it is a `T` also
                // while it is free.
                unsafe { page.descriptor(index).cast::<T>().as_ref() }
            })
        })
    }

    /// Looks for descriptors that are allocated, and that nobody has claimed for longer than
    /// `time`: those of threads that ended before they could put them anywhere, say. Hands each to
    /// `found`.
    ///
    /// A descriptor counts as claimed when it is allocated, and whenever somebody calls
    /// [`Reference::claim`]. So before an audit, claim what your structures hold, by walking
    /// through them; the time starts with the first audit that finds a descriptor unclaimed, and
    /// starts anew with each claim. What a thread may hold for longer than `time` outside of any
    /// structure, it has to claim too.
    ///
    /// GC96 takes t_stable for the time. Rounded up to milliseconds; after more than 12 days
    /// without an audit, it starts anew. Where the system refuses to tell the time, an audit finds
    /// nothing unclaimed unless `time` is zero. Waits for nothing; costs two atomic instructions
    /// for each descriptor that was claimed since the last audit. Of two audits at the same time,
    /// both may find a descriptor; one can reclaim it.
    ///
    /// ```
    /// use atomseq::type_stable::Pool;
    /// use std::sync::atomic::AtomicU64;
    /// use std::time::Duration;
    ///
    /// let pool = Pool::<AtomicU64>::new();
    /// let kept = pool.allocate()?;
    /// // This one should have gone into a structure, and did not.
    /// pool.allocate()?.into_raw();
    ///
    /// let mut found = 0;
    /// for _round in 0..2 {
    ///     kept.reference().claim();
    ///     pool.audit(Duration::from_millis(5), |unclaimed| {
    ///         found += 1;
    ///         // SAFETY: nobody has its address, for it was thrown away above.
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

    pub(super) fn audit_by<'pool>(
        &'pool self,
        time: Duration,
        now: impl Fn() -> Option<Moment>,
        mut found: impl FnMut(Unclaimed<'pool, T>),
    ) -> Audit {
        // Relaxed: a number on its own.
        let number = self.audits.fetch_add(1, Ordering::Relaxed);
        let look = Look::new(number, now, whole_milliseconds(time));
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
    // Acquire: pairs with the Release in `unclaimed::begin`, which comes after the descriptor
    // counts as claimed.
    let version = page.header(index).version.load(Ordering::Acquire);
    // SAFETY: a descriptor of a pool that is borrowed for as long as the page is.
    (version % 2 == 1).then(|| unsafe { Reference::new(page.descriptor(index).cast(), version) })
}

/// A descriptor that an audit has found allocated and unclaimed.
pub struct Unclaimed<'pool, T: Descriptor> {
    pool: &'pool Pool<T>,
    reference: Reference<'pool, T>,
}

impl<'pool, T: Descriptor> Unclaimed<'pool, T> {
    /// The allocation that nobody has claimed.
    pub fn reference(&self) -> Reference<'pool, T> {
        self.reference
    }

    /// Its contents, which may tell whose it was.
    pub fn descriptor(&self) -> &'pool T {
        self.reference.descriptor()
    }

    /// Takes it over, as a new allocation; all references to the old one have ended. `None` if the
    /// old one has ended by itself.
    ///
    /// # Safety
    ///
    /// Whoever allocated it is gone: nobody will drop its [`Allocated`], [`adopt`](Pool::adopt) it,
    /// or take it for its own.
    pub unsafe fn reclaim(self) -> Option<Allocated<'pool, T>> {
        self.reference.renew().then(|| {
            // SAFETY: allocated, and nobody else's, by the caller's promise and the exchange.
            unsafe { self.pool.adopt(self.reference.descriptor()) }
        })
    }
}

impl<T: Descriptor> fmt::Debug for Unclaimed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unclaimed").field(&self.reference).finish()
    }
}
