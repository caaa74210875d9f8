//! The free descriptors of a page: one word holds the head of the list and the count, and changes
//! as a whole.
//!
//! ```text
//! word:   | tag 32 | used 16 | first 16 |        first: the number of the first free descriptor
//!                                                used:  how many are not free
//! link of the free descriptor i:  the number of the next free one, less i + 1
//! ```
//!
//! All zeros mean that every descriptor is free, in the order of addresses. So a fresh page and its
//! record need no setup, and a page whose contents were discarded is fresh. The list ends where the
//! count says. The tag changes with each change of the word, so a taker that followed the links of
//! a changed list detects it; the indices that it read may be arbitrary. Lock-free: an exchange
//! fails only if another one succeeded.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The fields of a page's word.
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

    /// Returns the state with the next tag.
    pub fn next(self) -> PageState {
        PageState {
            tag: self.tag.wrapping_add(1),
            ..self
        }
    }
}

/// A page as a list of free descriptors.
pub(crate) trait Free {
    fn word(&self) -> &AtomicU64;

    /// Returns the link of a descriptor. The index is below the capacity.
    fn link(&self, index: usize) -> &AtomicU32;

    /// Returns the number of descriptors in the page.
    fn capacity(&self) -> usize;

    fn load(&self) -> PageState {
        // SeqCst: pairs with the exchanges below, in the total order that `hints` describes.
        PageState::of(self.word().load(Ordering::SeqCst))
    }

    /// Replaces the word if it still equals `old`.
    fn exchange(&self, old: PageState, new: PageState) -> bool {
        // SeqCst: for the total order of `hints`. Includes the Release of the links, which pairs
        // with the SeqCst load in `load`. Relaxed: after a failure, callers load the word again.
        let order = Ordering::SeqCst;
        let exchanged =
            self.word()
                .compare_exchange(old.word(), new.word(), order, Ordering::Relaxed);
        exchanged.is_ok()
    }

    fn has_free(&self) -> bool {
        usize::from(self.load().used) < self.capacity()
    }

    /// Takes as many free descriptors as `taken` has room for, and stores their indices there.
    /// Returns how many.
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

    /// Follows links from a free descriptor, and returns the index after the last one. `None` means
    /// that the list has certainly changed meanwhile. Otherwise the exchange of the word decides.
    fn follow(&self, first: u16, taken: &mut [u16]) -> Option<u16> {
        let mut next = first;
        for place in taken {
            if usize::from(next) >= self.capacity() {
                return None;
            }
            *place = next;
            // Relaxed: the exchange of the word decides whether this link belonged to the list; the
            // SeqCst load of the word acquired it.
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
            // Relaxed: released by the exchange of the word below.
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
