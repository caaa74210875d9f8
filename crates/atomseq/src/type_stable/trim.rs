//! Giving pages back to the system once they have been free for long enough.
//!
//! ```text
//! some in use ──last one put back──> all free ──a trim finds it──> seen (tag, time)
//!                                                                    │ a later trim finds the same
//!                                                                    │ tag, more than t_stable after
//!      all free, fresh <──discard, record the versions── taken <─────┘
//! ```
//!
//! If a page's tag is the one that an earlier trim saw, no descriptor of the page was allocated or
//! freed since. All of them were free for the whole time. The trim then takes all descriptors of
//! the page in one exchange of its word, like an allocation, and so owns the page exclusively while
//! it is discarded. `seen` explains why a delayed or overtaken trim never shortens the time.

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

/// The function that discards a page's memory: `platform::discard`, or a faulty replacement in
/// tests.
pub(super) type Discard = unsafe fn(NonNull<u8>, usize) -> bool;

impl<T: Descriptor> Pool<T> {
    /// Gives pages back to the system whose descriptors have all been free for longer than
    /// [`stable_for`](super::Options::stable_for). Returns the size of these pages in bytes; part
    /// of that may not have been resident.
    ///
    /// A page is given back no earlier than by the second call that finds it free, or by the first
    /// if the time is zero. Call this periodically. Each call empties the CPUs' stacks into their
    /// pages, through the gates, and visits every page in use, so it is slow. Several threads may
    /// call it at once. Blocks while another thread holds a gate.
    ///
    /// Readers of old addresses need no notification. They read zeros in a page that was given
    /// back, and a version that no [`Reference`](super::Reference) has.
    ///
    /// While a page is being given back, none of its descriptors can be allocated. If all other
    /// pages are in use, [`allocate`](Pool::allocate) may return
    /// [`Error::LimitReached`](super::Error::LimitReached) during that time.
    ///
    /// Returns 0 if the system cannot discard memory and keep its addresses (the portable build),
    /// if the pool has no [`stable_for`](super::Options::stable_for), or if the time is not zero
    /// and the system does not report the time.
    ///
    /// ```
    /// use atomseq::type_stable::Pool;
    /// use std::sync::atomic::AtomicU64;
    /// use std::time::Duration;
    ///
    /// let pool = Pool::<AtomicU64>::options().stable_for(Duration::from_millis(2)).try_build()?;
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
    /// Gives the page back if it has been free for long enough. Returns its size in bytes, or 0.
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
        // SAFETY: the range is whole system pages of the chunk's mapping, and this thread has just
        // taken every descriptor in it. Stale readers accept zeros at any time, by the contract of
        // `Descriptor`, and headers are atomics.
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
            // If the time is unknown, the old note stays. It belongs to another state of the page.
            false => (self.now)().map(|now| Seen::free(free, now)),
        };
        if let Some(seen) = seen {
            seen.note(&page.record.seen);
        }
        // SeqCst: for the total order of `hints`. No other thread changes the word meanwhile: the
        // page has nothing free to take and nothing allocated to free.
        page.record.word.store(free.word(), Ordering::SeqCst);
        chunk.replenish(number);
        if discarded { page.bytes() } else { 0 }
    }
}

/// Restores the links of a fresh page. A discard that fails may have zeroed part of the page, links
/// included.
fn relink(page: Page<'_>) {
    // Relaxed: released by the caller's SeqCst store of the page's word; pairs with the load in
    // `Free::load`.
    (0..page.capacity).for_each(|index| page.header(index).link.store(0, Ordering::Relaxed));
}

/// Records the highest version in the page, from which later versions continue.
fn record_versions(page: Page<'_>) {
    // Relaxed: this thread owns all descriptors of the page.
    let highest =
        (0..page.capacity).map(|index| page.header(index).version.load(Ordering::Relaxed));
    let past = page.record.past.load(Ordering::Relaxed);
    let past = highest.fold(past, usize::max);
    page.record.past.store(past, Ordering::Relaxed);
}
