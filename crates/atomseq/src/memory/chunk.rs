//! A chunk: a mapping of many pages, and what is known of each. A page with something free is looked for from the
//! lowest up, so that few pages are in use and the others can go back to the system.

use std::mem::size_of;
use std::ptr::NonNull;

use super::free::Free;
use super::hints::{EXHAUSTED, Path};
use super::layout::Geometry;
use super::page::{Page, Record};
use crate::sync::{AtomicU64, Ordering};
use crate::{percpu, platform};

const BITS: usize = 64;

/// What lies at the start of a chunk, and does not change.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Its pages are numbered from here.
    first_page: usize,
    pages: usize,
    bytes: usize,
    summary: NonNull<AtomicU64>,
    leaves: NonNull<AtomicU64>,
    records: NonNull<Record>,
    start: NonNull<u8>,
}

/// Where the parts of a chunk begin, counted from its start.
struct Parts {
    summary: usize,
    leaves: usize,
    records: usize,
    start: usize,
    bytes: usize,
}

impl Parts {
    fn of(pages: usize, geometry: &Geometry) -> Option<Parts> {
        let leaf_words = pages.div_ceil(BITS);
        let summary = size_of::<Chunk>().next_multiple_of(size_of::<u64>());
        let leaves = summary + leaf_words.div_ceil(BITS) * size_of::<u64>();
        let records = leaves + leaf_words * size_of::<u64>();
        let start = (records + pages.checked_mul(size_of::<Record>())?)
            .checked_next_multiple_of(platform::page_size())?;
        Some(Parts {
            summary,
            leaves,
            records,
            start,
            bytes: pages.checked_mul(geometry.page)?.checked_add(start)?,
        })
    }
}

impl Chunk {
    /// A chunk of pages that are all fresh, or `None` if there is no memory.
    pub fn map(first_page: usize, pages: usize, geometry: &Geometry) -> Option<NonNull<Chunk>> {
        let parts = Parts::of(pages, geometry)?;
        let mapping = percpu::memory::try_allocate_large(parts.bytes)?;
        let _exposed = mapping.as_ptr().expose_provenance();
        // SAFETY: all parts lie within the mapping, each aligned for what it holds.
        let chunk = unsafe {
            Chunk {
                first_page,
                pages,
                bytes: parts.bytes,
                summary: mapping.add(parts.summary).cast(),
                leaves: mapping.add(parts.leaves).cast(),
                records: mapping.add(parts.records).cast(),
                start: mapping.add(parts.start),
            }
        };
        chunk.exhaust_what_is_not();
        let place = mapping.cast::<Chunk>();
        // SAFETY: the start of the mapping, which nobody else knows.
        unsafe { place.write(chunk) };
        Some(place)
    }

    /// Pages and leaf words behind the last are never found.
    fn exhaust_what_is_not(&self) {
        let leaf_words = self.pages.div_ceil(BITS);
        if !self.pages.is_multiple_of(BITS) {
            let behind = EXHAUSTED << (self.pages % BITS);
            self.leaf(leaf_words - 1).store(behind, Ordering::Relaxed);
        }
        if !leaf_words.is_multiple_of(BITS) {
            let behind = EXHAUSTED << (leaf_words % BITS);
            self.summary(leaf_words / BITS)
                .store(behind, Ordering::Relaxed);
        }
    }

    /// Unmaps a chunk.
    ///
    /// # Safety
    ///
    /// `map` made it, and nobody uses it or anything in it any more.
    pub unsafe fn unmap(chunk: NonNull<Chunk>) {
        // SAFETY: the caller's promise: the chunk is there, and is the start of its mapping.
        unsafe { percpu::memory::free(chunk.cast(), chunk.as_ref().bytes) }
    }

    pub fn pages(&self) -> usize {
        self.pages
    }

    fn summary(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.pages.div_ceil(BITS).div_ceil(BITS));
        // SAFETY: within the chunk's summary words, as just checked.
        unsafe { self.summary.add(index).as_ref() }
    }

    fn leaf(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.pages.div_ceil(BITS));
        // SAFETY: within the chunk's leaf words, as just checked.
        unsafe { self.leaves.add(index).as_ref() }
    }

    /// A page, counted from the chunk's first.
    pub fn page<'a>(&'a self, index: usize, geometry: &'a Geometry) -> Page<'a> {
        assert!(index < self.pages);
        Page {
            // SAFETY: within the chunk's records, as just checked.
            record: unsafe { self.records.add(index).as_ref() },
            geometry,
            // SAFETY: within the chunk's pages.
            start: unsafe { self.start.add(index * geometry.page) },
            capacity: geometry.capacity(self.first_page + index),
        }
    }

    /// The page and the number in it of the descriptor at an address, if there is one.
    pub fn find(&self, address: usize, geometry: &Geometry) -> Option<(usize, usize)> {
        let distance = address.checked_sub(self.start.addr().get())?;
        let (page, rest) = (distance / geometry.page, distance % geometry.page);
        let index = rest / geometry.stride;
        let there = page < self.pages
            && rest % geometry.stride == 0
            && index < geometry.capacity(self.first_page + page);
        there.then_some((page, index))
    }

    /// The lowest page that may have free descriptors.
    pub fn available(&self) -> Option<usize> {
        let leaf_words = self.pages.div_ceil(BITS);
        for summary in 0..leaf_words.div_ceil(BITS) {
            let mut words = !self.summary(summary).load(Ordering::SeqCst);
            while words != 0 {
                let leaf = summary * BITS + words.trailing_zeros() as usize;
                let pages = !self.leaf(leaf).load(Ordering::SeqCst);
                if pages != 0 {
                    return Some(leaf * BITS + pages.trailing_zeros() as usize);
                }
                self.path(leaf * BITS).exhaust_leaf();
                words &= words - 1;
            }
        }
        None
    }

    fn path(&self, page: usize) -> Path<'_> {
        let leaf = page / BITS;
        Path {
            leaf: self.leaf(leaf),
            leaf_bit: 1 << (page % BITS),
            summary: self.summary(leaf / BITS),
            summary_bit: 1 << (leaf % BITS),
        }
    }

    /// Notes that nothing was free in a page, unless something is by now.
    pub fn exhaust(&self, page: usize, geometry: &Geometry) {
        self.path(page)
            .exhaust(|| self.page(page, geometry).has_free());
    }

    /// Notes that something is free in a page.
    pub fn replenish(&self, page: usize) {
        self.path(page).replenish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn with_chunk(pages: usize, work: impl FnOnce(&Chunk, &Geometry)) {
        let geometry = Geometry {
            limit: usize::MAX / 2,
            ..Geometry::of::<AtomicUsize>(None).unwrap()
        };
        let chunk = Chunk::map(0, pages, &geometry).unwrap();
        // SAFETY: just mapped, and unmapped below.
        work(unsafe { chunk.as_ref() }, &geometry);
        // SAFETY: the borrow has ended.
        unsafe { Chunk::unmap(chunk) };
    }

    fn use_up(page: Page<'_>) {
        while page.take(32, |_| ()).is_some() {}
    }

    #[test]
    fn pages_are_found_from_the_lowest_up() {
        for pages in [1, 16, 63, 64, 65, 4096, 4097, 5000] {
            with_chunk(pages, |chunk, geometry| {
                for page in 0..pages {
                    assert_eq!(chunk.available(), Some(page));
                    use_up(chunk.page(page, geometry));
                    chunk.exhaust(page, geometry);
                }
                assert_eq!(chunk.available(), None);
                for page in [pages - 1, pages / 2, 0] {
                    chunk.page(page, geometry).put(0);
                    chunk.replenish(page);
                    assert_eq!(chunk.available(), Some(page));
                }
            });
        }
    }

    /// A thread that was held up before it set the bit sets it after others have freed something.
    #[test]
    fn a_page_with_free_descriptors_is_not_exhausted_for_long() {
        with_chunk(70, |chunk, geometry| {
            for page in 0..70 {
                use_up(chunk.page(page, geometry));
                chunk.exhaust(page, geometry);
            }
            chunk.page(3, geometry).put(1);
            chunk.exhaust(3, geometry);
            assert_eq!(chunk.available(), Some(3));
        });
    }

    #[test]
    fn only_addresses_of_descriptors_are_found() {
        with_chunk(3, |chunk, geometry| {
            let page = chunk.page(2, geometry);
            let address = page.descriptor(5).addr().get();
            assert_eq!(chunk.find(address, geometry), Some((2, 5)));
            assert_eq!(chunk.find(address + 8, geometry), None);
            assert_eq!(chunk.find(address + geometry.page, geometry), None);
            assert_eq!(chunk.find(0, geometry), None);
            let chunks = std::ptr::from_ref(chunk).addr();
            assert_eq!(chunk.find(chunks, geometry), None);
        });
    }
}
