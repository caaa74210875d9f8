//! Giving pages back to the system, and the time that has to pass first.
//!
//! ```text
//! some in use ──last one put back──> all free ──a trim finds it──> seen (tag, time)
//!                                                                    │ a later trim finds the same
//!                                                                    │ tag, more than t_stable after
//!      all free, fresh <──discard, record the versions── taken <─────┘
//! ```
//!
//! A page whose tag is still the one that an earlier trim saw has not been touched since: all its descriptors have been
//! free for the whole time, as far as the pool knows. The page is then taken like any other allocation would take
//! it, only as a whole, by one exchange of its word; so nobody else has any of it while it goes.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::chunk::Chunk;
use super::descriptor::Descriptor;
use super::free::{Free, Word};
use super::page::Page;
use super::pool::Pool;
use super::shared::Shared;
use crate::platform;

/// What gives a page's memory back: `platform::discard`, or in tests one of its wrong twins.
pub(super) type Discard = unsafe fn(NonNull<u8>, usize) -> bool;

/// Stands for a time in [`Record::seen`](super::page::Record::seen) of a page that has no memory.
const GIVEN_BACK: u32 = u32::MAX;

impl<T: Descriptor> Pool<T> {
    /// Gives pages back to the system all of whose descriptors have been free for longer than
    /// [`stable_for`](super::Options::stable_for) said. Returns how many bytes went back.
    ///
    /// A page is given back by the second call that finds it free, at the earliest, so call this now and
    /// then. Each call empties the CPUs' stacks into their pages, through the gates, and looks at every
    /// page that is in use: it takes time, and is not what to call in a hurry. Several threads may.
    ///
    /// Readers of old addresses are not asked. They read zeros in what was given back, with a
    /// version that no [`Reference`](super::Reference) has.
    ///
    /// Returns 0 where the system does not take memory and leave addresses (the portable build), and for pools that
    /// are stable for ever.
    ///
    /// ```
    /// use atomseq::memory::Pool;
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
    /// # Ok::<(), atomseq::memory::Error>(())
    /// ```
    pub fn trim(&self) -> usize {
        self.trim_by(platform::discard)
    }

    pub(super) fn trim_by(&self, discard: Discard) -> usize {
        let Some(stable) = self.stable else {
            return 0;
        };
        for address in self.cache.drain() {
            self.shared().put(address);
        }
        let trim = Trim {
            shared: self.shared(),
            now: self.milliseconds(),
            stable: whole_milliseconds(stable),
            discard,
        };
        let pages = trim.shared.pages();
        pages
            .map(|(chunk, number, page)| trim.visit(chunk, number, page))
            .sum()
    }
}

/// Rounded up. What does not fit is as good as for ever.
pub(super) fn whole_milliseconds(time: Duration) -> u32 {
    let milliseconds = time.as_nanos().div_ceil(1_000_000);
    u32::try_from(milliseconds).unwrap_or(u32::MAX)
}

struct Trim<'a> {
    shared: &'a Shared,
    now: u32,
    stable: u32,
    discard: Discard,
}

impl Trim<'_> {
    /// Returns how many bytes of the page went back.
    fn visit(&self, chunk: &Chunk, number: usize, page: Page<'_>) -> usize {
        let word = page.load();
        if word.used != 0 {
            return 0;
        }
        // Relaxed: who writes it has seen the page all free with the tag that is written with it, and
        // the word itself says whether it still has that tag.
        let seen = page.record.seen.load(Ordering::Relaxed);
        let (tag, time) = ((seen >> 32) as u32, seen as u32);
        if tag != word.tag {
            self.see(page, word, self.now);
            if self.stable > 0 {
                return 0;
            }
        } else if time == GIVEN_BACK || self.is_too_early(time) {
            return 0;
        }
        self.give_back(chunk, number, page, word)
    }

    /// Both times were cut to whole milliseconds, so an equal distance may have been a shorter one.
    fn is_too_early(&self, since: u32) -> bool {
        let free_for = self.now.wrapping_sub(since);
        self.stable > 0 && free_for <= self.stable
    }

    fn see(&self, page: Page<'_>, word: Word, time: u32) {
        let time = time.min(GIVEN_BACK - 1);
        let seen = u64::from(word.tag) << 32 | u64::from(time);
        page.record.seen.store(seen, Ordering::Relaxed);
    }

    fn give_back(&self, chunk: &Chunk, number: usize, page: Page<'_>, word: Word) -> usize {
        let taken = Word {
            used: page.capacity as u16,
            ..word.next()
        };
        if !page.exchange(word, taken) {
            return 0;
        }
        record_versions(page);
        // SAFETY: whole pages of the system, all of whose descriptors this thread has just taken; whoever still
        // reads them expects zeros at any time, by `Descriptor`'s contract, and headers are atomics.
        let discarded = unsafe { (self.discard)(page.start, page.geometry.page) };
        if !discarded {
            relink(page);
        }
        let free = Word {
            first: 0,
            used: 0,
            ..taken.next()
        };
        let time = if discarded { GIVEN_BACK } else { self.now };
        let seen = u64::from(free.tag) << 32 | u64::from(time);
        page.record.seen.store(seen, Ordering::Relaxed);
        // SeqCst, for the order of `hints`. Nobody else changes the word of a page that has nothing free
        // and of which nobody has anything.
        page.record.word.store(free.word(), Ordering::SeqCst);
        chunk.replenish(number);
        if discarded { page.geometry.page } else { 0 }
    }
}

/// Links a page's descriptors as those of a fresh one are. The system may have taken some of its memory, up to what it would not
/// take, and the links there.
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
