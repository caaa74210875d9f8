//! A page's free descriptors: one word says which and how many, and is changed as a whole.
//!
//! ```text
//! word:   | tag 32 | used 16 | first 16 |        first: the number of the first free descriptor
//!                                                used:  how many are not free
//! link of the free descriptor i:  the number of the next free one, less i + 1
//! ```
//!
//! So zeros mean that all are free, in the order of their addresses: neither a fresh page nor its record
//! has to be set up, and a page that has lost its contents to the system is a fresh one. The list
//! ends where the count says. The tag changes with each change of the word, so that a taker that has
//! followed links of a list which has changed meanwhile finds it out (the numbers it has read may be
//! any). Lock-free: a failed exchange means that another one has succeeded.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::layout::{Geometry, Header};

/// What a chunk keeps about each of its pages. Zeroed: fresh.
#[derive(Debug)]
pub(super) struct Record {
    pub word: AtomicU64,
    /// When a trim first found it all free, and the tag that it had then.
    pub seen: AtomicU64,
    /// What versions were used here before the page was last given back.
    pub past: AtomicUsize,
}

/// A [`Record::word`], taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub first: u16,
    pub used: u16,
    pub tag: u32,
}

impl Word {
    pub fn of(word: u64) -> Word {
        Word {
            first: word as u16,
            used: (word >> 16) as u16,
            tag: (word >> 32) as u32,
        }
    }

    pub fn word(self) -> u64 {
        u64::from(self.tag) << 32 | u64::from(self.used) << 16 | u64::from(self.first)
    }

    /// The next word, whatever else changes.
    pub fn next(self) -> Word {
        Word {
            tag: self.tag.wrapping_add(1),
            ..self
        }
    }
}

/// A page of a chunk that is mapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page<'a> {
    pub record: &'a Record,
    pub geometry: &'a Geometry,
    /// Where its first descriptor lies.
    pub start: NonNull<u8>,
    /// How many descriptors it has.
    pub capacity: usize,
}

/// How many descriptors are taken at a time at most.
pub(super) const BATCH: usize = 32;

impl<'a> Page<'a> {
    pub fn descriptor(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.capacity);
        // SAFETY: within the page, as just checked.
        unsafe { self.start.add(index * self.geometry.stride) }
    }

    pub fn header(&self, index: usize) -> &'a Header {
        // SAFETY: behind each descriptor lies its header, all of whose words are atomic and valid
        // when they are zero. The page stays mapped as long as the record.
        unsafe {
            self.descriptor(index)
                .add(self.geometry.header)
                .cast()
                .as_ref()
        }
    }

    pub fn load(&self) -> Word {
        // SeqCst: pairs with the exchanges below, in the order that `Shared` tells of.
        Word::of(self.record.word.load(Ordering::SeqCst))
    }

    /// Replaces the word, if it is still the old one.
    pub fn exchange(&self, old: Word, new: Word) -> bool {
        let (old, new) = (old.word(), new.word());
        // SeqCst, for the order of `Shared`; includes the Release of links, for takers to acquire.
        let order = Ordering::SeqCst;
        let exchanged = self
            .record
            .word
            .compare_exchange(old, new, order, Ordering::Relaxed);
        exchanged.is_ok()
    }

    pub fn has_free(&self) -> bool {
        usize::from(self.load().used) < self.capacity
    }

    /// Takes up to `most` descriptors, at most [`BATCH`], out of the page. `None` if none is free.
    pub fn take(&self, most: usize, mut take: impl FnMut(NonNull<u8>)) -> Option<()> {
        let mut taken = [0; BATCH];
        loop {
            let word = self.load();
            let free = self.capacity - usize::from(word.used);
            if free == 0 {
                return None;
            }
            let taken = &mut taken[..free.min(most).min(BATCH)];
            let Some(first) = self.follow(word.first, taken) else {
                continue;
            };
            let used = word.used + taken.len() as u16;
            if self.exchange(
                word,
                Word {
                    first,
                    used,
                    ..word.next()
                },
            ) {
                for &index in &*taken {
                    self.renew(usize::from(index));
                    take(self.descriptor(usize::from(index)));
                }
                return Some(());
            }
        }
    }

    /// Follows links from a free descriptor; returns the one that comes next. `None` if the list has changed
    /// under way, for sure; if it has not, the word tells.
    fn follow(&self, first: u16, taken: &mut [u16]) -> Option<u16> {
        let mut next = first;
        for place in taken {
            if usize::from(next) >= self.capacity {
                return None;
            }
            *place = next;
            // Relaxed: whether the link was that of a free descriptor is for the word to say.
            let link = self.header(usize::from(next)).link.load(Ordering::Relaxed);
            next = next.wrapping_add(1).wrapping_add(link as u16);
        }
        Some(next)
    }

    /// The version of a descriptor whose page was fresh goes on where the page's versions ended.
    fn renew(&self, index: usize) {
        let version = &self.header(index).version;
        // Relaxed: the taker alone has the descriptor.
        if version.load(Ordering::Relaxed) == 0 {
            let past = self.record.past.load(Ordering::Relaxed);
            version.store(past + 2, Ordering::Relaxed);
        }
    }

    /// Puts a descriptor back into the page.
    pub fn put(&self, index: usize) {
        loop {
            let word = self.load();
            debug_assert!(word.used > 0, "freed more often than allocated");
            let link = word.first.wrapping_sub(index as u16).wrapping_sub(1);
            // Relaxed: released by the exchange.
            let of_this = &self.header(index).link;
            of_this.store(u32::from(link), Ordering::Relaxed);
            let new = Word {
                first: index as u16,
                used: word.used - 1,
                ..word.next()
            };
            if self.exchange(word, new) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform;
    use std::collections::BTreeSet;

    const SIZES: Geometry = Geometry {
        stride: 64,
        header: 32,
        page: 4096,
        per_page: 64,
        limit: 64,
    };

    fn with_page(capacity: usize, work: impl FnOnce(Page<'_>)) {
        let start = platform::map(SIZES.page).unwrap();
        let record = Record {
            word: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            past: AtomicUsize::new(40),
        };
        work(Page {
            record: &record,
            geometry: &SIZES,
            start,
            capacity,
        });
        // SAFETY: mapped above, and not used any more.
        unsafe { platform::unmap(start, SIZES.page) };
    }

    fn take(page: Page<'_>, most: usize) -> Vec<usize> {
        let mut taken = Vec::new();
        let _ = page.take(most, |descriptor| {
            taken.push((descriptor.addr().get() - page.start.addr().get()) / SIZES.stride);
        });
        taken
    }

    #[test]
    fn words_survive() {
        let word = Word {
            first: 0xabcd,
            used: 0x1234,
            tag: u32::MAX,
        };
        assert_eq!(Word::of(word.word()), word);
        assert_eq!(word.next().tag, 0);
    }

    #[test]
    fn zeros_are_a_page_of_free_descriptors_in_order() {
        with_page(64, |page| {
            assert_eq!(take(page, 5), [0, 1, 2, 3, 4]);
            assert_eq!(take(page, 100), (5..37).collect::<Vec<_>>());
            assert_eq!(take(page, 100), (37..64).collect::<Vec<_>>());
            assert_eq!(take(page, 1), []);
            assert!(!page.has_free());
        });
    }

    #[test]
    fn what_was_put_back_comes_out_once() {
        with_page(50, |page| {
            let mut random = 12345u32;
            let mut out: Vec<usize> = Vec::new();
            for _ in 0..2000 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if random >> 31 == 0 {
                    out.extend(take(page, (random >> 20) as usize % 40));
                } else if !out.is_empty() {
                    let index = out.swap_remove((random >> 16) as usize % out.len());
                    page.put(index);
                }
                let distinct: BTreeSet<_> = out.iter().collect();
                assert_eq!(distinct.len(), out.len());
                assert!(out.iter().all(|index| *index < 50));
                assert_eq!(usize::from(page.load().used), out.len());
            }
        });
    }

    #[test]
    fn versions_go_on_where_the_page_ended() {
        with_page(8, |page| {
            take(page, 1);
            assert_eq!(page.header(0).version.load(Ordering::Relaxed), 42);
            assert_eq!(page.header(1).version.load(Ordering::Relaxed), 0);
        });
    }

    /// What a taker has read of a list that has changed meanwhile cannot lead it out of the page.
    #[test]
    fn links_that_lead_nowhere_are_not_followed() {
        with_page(8, |page| {
            page.header(2).link.store(17, Ordering::Relaxed);
            assert_eq!(page.follow(0, &mut [0; 3]), Some(20));
            assert_eq!(page.follow(0, &mut [0; 4]), None);
        });
    }
}
