//! Giving pages back to the system, and the time that has to pass first.
//!
//! ```text
//! some in use ──last one put back──> all free ──a trim finds it──> seen (tag, time)
//!                                                                    │ a later trim finds the same
//!                                                                    │ tag, more than t_stable after
//!      all free, fresh <──discard, record the versions── taken <─────┘
//! ```
//!
//! A page whose tag is still the one that an earlier trim saw has not been touched since: all its
//! descriptors have been free for the whole time, as far as the pool knows. The page is then taken
//! like any other allocation would take it, only as a whole, by one exchange of its word; so nobody
//! else has any of it while it goes. `seen` tells why no trim that is held up, or overtaken by
//! another one, makes the time shorter.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::chunk::Chunk;
use super::descriptor::Descriptor;
use super::free::{Free, PageState};
use super::moment::{Moment, whole_milliseconds};
use super::page::Page;
use super::pool::Pool;
use super::seen::{self, Seen};
use super::shared::Shared;
use crate::platform;

/// What gives a page's memory back: `platform::discard`, or in tests one of its wrong twins.
pub(super) type Discard = unsafe fn(NonNull<u8>, usize) -> bool;

impl<T: Descriptor> Pool<T> {
    /// Gives pages back to the system all of whose descriptors have been free for longer than
    /// [`stable_for`](super::Options::stable_for) said. Returns how many bytes these pages have: of
    /// a page of several of the system's, not all need have been in memory.
    ///
    /// A page is given back by the second call that finds it free, at the earliest, so call this
    /// now and then; if that time is zero, by the first. Each call empties the CPUs' stacks into
    /// their pages, through the gates, and looks at every page that is in use: it takes time, and
    /// is not what to call in a hurry. Several threads may.
    ///
    /// Readers of old addresses are not asked. They read zeros in what was given back, with a
    /// version that no [`Reference`](super::Reference) has.
    ///
    /// While a page is on its way back, none of its descriptors can be allocated: of a pool whose
    /// other pages are all in use, or that has no other, [`allocate`](Pool::allocate) may return
    /// [`Error::LimitReached`](super::Error::LimitReached) meanwhile.
    ///
    /// Returns 0 where the system does not take memory and leave addresses (the portable build),
    /// for pools that are stable for ever, and where the system refuses to tell the time that has
    /// to pass.
    ///
    /// ```
    /// use atomseq::type_stable::Pool;
    /// use std::sync::atomic::AtomicU64;
    /// use std::time::Duration;
    ///
    /// let pool = Pool::<AtomicU64>::options().stable_for(Duration::from_millis(2)).build()?;
    /// let many: Vec<_> = (0..10_000).map(|_| pool.allocate()).collect::<Result<_, _>>()?;
    /// drop(many);
    /// assert_eq!(pool.trim(), 0);
    /// std::thread::sleep(Duration::from_millis(5));
    /// let bytes = pool.trim();
    /// # #[cfg(atomseq_sections)]
    /// assert!(bytes >= 10_000 * 64);
    /// # Ok::<(), atomseq::type_stable::Error>(())
    /// ```
    pub fn trim(&self) -> usize {
        self.trim_by(platform::discard, super::now)
    }

    pub(super) fn trim_by(&self, discard: Discard, now: impl Fn() -> Option<Moment>) -> usize {
        let Some(stable) = self.stable else {
            return 0;
        };
        for address in self.cache.drain() {
            self.shared().put(address);
        }
        let trim = Trim {
            shared: self.shared(),
            now,
            stable: whole_milliseconds(stable),
            discard,
        };
        let pages = trim.shared.pages();
        pages
            .map(|(chunk, number, page)| trim.visit(chunk, number, page))
            .sum()
    }
}

struct Trim<'a, N> {
    shared: &'a Shared,
    now: N,
    stable: u32,
    discard: Discard,
}

impl<N: Fn() -> Option<Moment>> Trim<'_, N> {
    /// Returns how many bytes the page has, if it went back.
    fn visit(&self, chunk: &Chunk, number: usize, page: Page<'_>) -> usize {
        let (noted, now) = (&page.record.seen, &self.now);
        let Some(word) = seen::free_for_longer(&page, noted, now, self.stable) else {
            return 0;
        };
        self.give_back(chunk, number, page, word)
    }

    fn give_back(&self, chunk: &Chunk, number: usize, page: Page<'_>, word: PageState) -> usize {
        let taken = PageState {
            used: page.capacity as u16,
            ..word.next()
        };
        if !page.exchange(word, taken) {
            return 0;
        }
        record_versions(page);
        // SAFETY: whole pages of the system, all of whose descriptors this thread has just taken;
        // whoever still reads them expects zeros at any time, by `Descriptor`'s contract, and
        // headers are atomics.
        let discarded = unsafe { (self.discard)(page.start, page.bytes()) };
        if !discarded {
            relink(page);
        }
        let free = PageState {
            first: 0,
            used: 0,
            ..taken.next()
        };
        let seen = match discarded {
            true => Some(Seen::given_back(free)),
            // Else what is noted is of another state of the page.
            false => (self.now)().map(|now| Seen::free(free, now)),
        };
        if let Some(seen) = seen {
            seen.note(&page.record.seen);
        }
        // SeqCst, for the order of `hints`. Nobody else changes the word of a page that has nothing
        // free and of which nobody has anything.
        page.record.word.store(free.word(), Ordering::SeqCst);
        chunk.replenish(number);
        if discarded { page.bytes() } else { 0 }
    }
}

/// Links a page's descriptors as those of a fresh one are. The system may have taken some of its
/// memory, up to what it would not take, and the links there.
fn relink(page: Page<'_>) {
    // Relaxed: released by the store of the page's word.
    (0..page.capacity).for_each(|index| page.header(index).link.store(0, Ordering::Relaxed));
}

/// Versions go on from the highest one.
fn record_versions(page: Page<'_>) {
    // Relaxed: this thread has all descriptors.
    let highest =
        (0..page.capacity).map(|index| page.header(index).version.load(Ordering::Relaxed));
    let past = page.record.past.load(Ordering::Relaxed);
    let past = highest.fold(past, usize::max);
    page.record.past.store(past, Ordering::Relaxed);
}
