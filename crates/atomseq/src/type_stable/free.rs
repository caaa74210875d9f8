//! A page's free descriptors: one word says which and how many, and is changed as a whole.
//!
//! ```text
//! word:   | tag 32 | used 16 | first 16 |        first: the number of the first free descriptor
//!                                                used:  how many are not free
//! link of the free descriptor i:  the number of the next free one, less i + 1
//! ```
//!
//! So zeros mean that all are free, in the order of their addresses: neither a fresh page nor its
//! record has to be set up, and a page that has lost its contents to the system is a fresh one. The
//! list ends where the count says. The tag changes with each change of the word, so that a taker
//! that has followed links of a list which has changed meanwhile finds it out (the numbers it has
//! read may be any). Lock-free: a failed exchange means that another one has succeeded.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageState {
    pub first: u16,
    pub used: u16,
    pub tag: u32,
}

impl PageState {
    pub fn of(word: u64) -> PageState {
        PageState {
            first: word as u16,
            used: (word >> 16) as u16,
            tag: (word >> 32) as u32,
        }
    }

    pub fn word(self) -> u64 {
        u64::from(self.tag) << 32 | u64::from(self.used) << 16 | u64::from(self.first)
    }

    /// The next word, whatever else changes.
    pub fn next(self) -> PageState {
        PageState {
            tag: self.tag.wrapping_add(1),
            ..self
        }
    }
}

/// A page, as far as its free descriptors go.
pub(crate) trait Free {
    fn word(&self) -> &AtomicU64;

    /// The link of a descriptor; the number is below the capacity.
    fn link(&self, index: usize) -> &AtomicU32;

    /// How many descriptors there are.
    fn capacity(&self) -> usize;

    fn load(&self) -> PageState {
        // SeqCst: pairs with the exchanges below, in the order that `hints` tells of.
        PageState::of(self.word().load(Ordering::SeqCst))
    }

    /// Replaces the word, if it is still the old one.
    fn exchange(&self, old: PageState, new: PageState) -> bool {
        // SeqCst, for the order of `hints`; includes the Release of links, for takers to acquire.
        let order = Ordering::SeqCst;
        let exchanged =
            self.word()
                .compare_exchange(old.word(), new.word(), order, Ordering::Relaxed);
        exchanged.is_ok()
    }

    fn has_free(&self) -> bool {
        usize::from(self.load().used) < self.capacity()
    }

    /// Takes as many descriptors as there are and as there is room for their numbers; returns how
    /// many.
    fn take_free(&self, taken: &mut [u16]) -> usize {
        loop {
            let word = self.load();
            let free = self.capacity() - usize::from(word.used);
            let count = free.min(taken.len());
            if count == 0 {
                return 0;
            }
            let Some(first) = self.follow(word.first, &mut taken[..count]) else {
                continue;
            };
            let used = word.used + count as u16;
            let left = PageState {
                first,
                used,
                ..word.next()
            };
            if self.exchange(word, left) {
                return count;
            }
        }
    }

    /// Follows links from a free descriptor; returns the one that comes next. `None` if the list
    /// has changed under way, for sure; if it has not, the word tells.
    fn follow(&self, first: u16, taken: &mut [u16]) -> Option<u16> {
        let mut next = first;
        for place in taken {
            if usize::from(next) >= self.capacity() {
                return None;
            }
            *place = next;
            // Relaxed: whether the link was that of a free descriptor is for the word to say.
            let link = self.link(usize::from(next)).load(Ordering::Relaxed);
            next = next.wrapping_add(1).wrapping_add(link as u16);
        }
        Some(next)
    }

    /// Puts a descriptor back.
    fn put(&self, index: usize) {
        loop {
            let word = self.load();
            debug_assert!(word.used > 0, "freed more often than allocated");
            let link = word.first.wrapping_sub(index as u16).wrapping_sub(1);
            // Relaxed: released by the exchange.
            self.link(index).store(u32::from(link), Ordering::Relaxed);
            let more = PageState {
                first: index as u16,
                used: word.used - 1,
                ..word.next()
            };
            if self.exchange(word, more) {
                return;
            }
        }
    }
}
