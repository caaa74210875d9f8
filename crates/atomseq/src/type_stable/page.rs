//! A page of descriptors, and the record that its chunk keeps about it.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::free::Free;
use super::layout::{Geometry, Header};
use crate::sync::{AtomicU32, AtomicU64};

/// The record of a page. All zeros: the page is fresh.
#[derive(Debug)]
pub(super) struct Record {
    /// Which descriptors are free: see `free`.
    pub word: AtomicU64,
    /// The tag and time of the last trim that found the page all free: see `seen`.
    pub seen: AtomicU64,
    /// The highest version used in this page before it was last given back.
    pub past: AtomicUsize,
}

/// A page of a mapped chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page<'a> {
    pub record: &'a Record,
    pub geometry: &'a Geometry,
    /// The address of its first descriptor.
    pub start: NonNull<u8>,
    /// The number of its descriptors.
    pub capacity: usize,
}

/// The max number of descriptors taken at once.
pub(super) const BATCH: usize = 32;

impl Free for Page<'_> {
    fn word(&self) -> &AtomicU64 {
        &self.record.word
    }

    fn link(&self, index: usize) -> &AtomicU32 {
        &self.header(index).link
    }

    fn capacity(&self) -> usize {
        self.capacity
    }
}

impl<'a> Page<'a> {
    /// Returns the size in bytes: a multiple of the system's page size.
    pub fn bytes(&self) -> usize {
        self.geometry.bytes_of_page(self.capacity)
    }

    pub fn descriptor(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.capacity);
        // SAFETY: the index is below the capacity, checked above, so the offset is inside the
        // page's mapping.
        unsafe { self.start.add(index * self.geometry.stride) }
    }

    pub fn header(&self, index: usize) -> &'a Header {
        let descriptor = self.descriptor(index);
        // SAFETY: each descriptor is followed by its header at this offset, inside the page. The
        // header consists of atomics, for which zeros are valid, and is only shared. The page stays
        // mapped as long as the record.
        unsafe { descriptor.add(self.geometry.header).cast().as_ref() }
    }

    /// Takes up to `max` descriptors, at most [`BATCH`], out of the page. Returns `None` if none
    /// is free.
    pub fn take(&self, max: usize, mut take: impl FnMut(NonNull<u8>)) -> Option<()> {
        let mut taken = [0; BATCH];
        let count = self.take_free(&mut taken[..max.min(BATCH)]);
        for &index in &taken[..count] {
            self.renew(usize::from(index));
            take(self.descriptor(usize::from(index)));
        }
        (count > 0).then_some(())
    }

    /// Continues the version of a descriptor on a fresh page from the highest version used there
    /// before.
    fn renew(&self, index: usize) {
        let version = &self.header(index).version;
        // Relaxed: the caller has just taken the descriptor and owns it exclusively.
        if version.load(Ordering::Relaxed) == 0 {
            let past = self.record.past.load(Ordering::Relaxed);
            version.store(past + 2, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform;
    use crate::type_stable::free::PageState;
    use std::collections::BTreeSet;

    const SIZES: Geometry = Geometry {
        stride: 64,
        header: 32,
        page: 4096,
        system: 4096,
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
        // SAFETY: mapped above with this size, and no longer used.
        unsafe { platform::unmap(start, SIZES.page) };
    }

    fn take(page: Page<'_>, max: usize) -> Vec<usize> {
        let mut taken = Vec::new();
        let _ = page.take(max, |descriptor| {
            taken.push((descriptor.addr().get() - page.start.addr().get()) / SIZES.stride);
        });
        taken
    }

    #[test]
    fn words_survive() {
        let word = PageState {
            first: 0xabcd,
            used: 0x1234,
            tag: u32::MAX,
        };
        assert_eq!(PageState::of(word.word()), word);
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

    /// A taker that read links of a list which changed meanwhile stays within the page.
    #[test]
    fn links_that_lead_nowhere_are_not_followed() {
        with_page(8, |page| {
            page.header(2).link.store(17, Ordering::Relaxed);
            assert_eq!(page.follow(0, &mut [0; 3]), Some(20));
            assert_eq!(page.follow(0, &mut [0; 4]), None);
        });
    }
}
