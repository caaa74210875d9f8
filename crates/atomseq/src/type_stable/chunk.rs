//! A chunk: a mapping of many pages, and the records about each. Allocation prefers the lowest page
//! with something free. So few pages are in use, and the others can go back to the system.

use std::mem::size_of;
use std::ptr::NonNull;
use std::slice;

use super::free::Free;
use super::hints::{Hints, Map};
use super::layout::Geometry;
use super::page::{Page, Record};
use crate::{mappings, platform};

/// The record at the start of a chunk. It never changes.
#[derive(Debug)]
pub(super) struct Chunk {
    /// The number of the chunk's first page in the pool.
    first_page: usize,
    pages: usize,
    bytes: usize,
    summaries: NonNull<Hints>,
    leaves: NonNull<Hints>,
    records: NonNull<Record>,
    start: NonNull<u8>,
}

/// The offsets of a chunk's parts from its start, in bytes.
struct Parts {
    summaries: usize,
    leaves: usize,
    records: usize,
    start: usize,
    bytes: usize,
}

impl Parts {
    /// Computes the offsets of a chunk of at least one page. Returns `None` on overflow.
    fn of(first_page: usize, pages: usize, geometry: &Geometry) -> Option<Parts> {
        let (leaf_count, summary_count) = Map::sizes(pages);
        let summaries = size_of::<Chunk>().next_multiple_of(size_of::<u64>());
        let leaves = summaries + summary_count * size_of::<Hints>();
        let records = leaves + leaf_count * size_of::<Hints>();
        let start = (records + pages.checked_mul(size_of::<Record>())?)
            .checked_next_multiple_of(platform::page_size())?;
        let last = geometry.capacity(first_page + pages - 1);
        let before_last = (pages - 1).checked_mul(geometry.page)?;
        let descriptors = before_last.checked_add(geometry.bytes_of_page(last))?;
        Some(Parts {
            summaries,
            leaves,
            records,
            start,
            bytes: descriptors.checked_add(start)?,
        })
    }
}

impl Chunk {
    /// Maps a chunk of fresh pages. Returns `None` if there is no memory.
    pub fn map(first_page: usize, pages: usize, geometry: &Geometry) -> Option<NonNull<Chunk>> {
        let parts = Parts::of(first_page, pages, geometry)?;
        let mapping = mappings::map(parts.bytes)?;
        let _exposed = mapping.as_ptr().expose_provenance();
        // SAFETY: all offsets lie within the mapping, which has `parts.bytes` bytes. `Parts::of`
        // aligns each part for its type.
        let chunk = unsafe {
            Chunk {
                first_page,
                pages,
                bytes: parts.bytes,
                summaries: mapping.add(parts.summaries).cast(),
                leaves: mapping.add(parts.leaves).cast(),
                records: mapping.add(parts.records).cast(),
                start: mapping.add(parts.start),
            }
        };
        chunk.hints().begin();
        let place = mapping.cast::<Chunk>();
        // SAFETY: the mapping is page-aligned, large enough, and not yet published to any other
        // thread.
        unsafe { place.write(chunk) };
        Some(place)
    }

    /// Unmaps a chunk.
    ///
    /// # Safety
    ///
    /// The chunk was returned by `map`, and nothing uses it or its contents any more.
    pub unsafe fn unmap(chunk: NonNull<Chunk>) {
        // SAFETY: by the contract, the chunk is still mapped, and it lies at the start of its
        // mapping of `bytes` bytes. The size is read before the mapping goes away.
        unsafe { mappings::unmap(chunk.cast(), chunk.as_ref().bytes) }
    }

    pub fn pages(&self) -> usize {
        self.pages
    }

    fn hints(&self) -> Map<'_> {
        let (leaves, summaries) = Map::sizes(self.pages);
        // SAFETY: `map` laid out this many leaves and summaries here, within the chunk's mapping.
        // They are only shared, they consist of atomics, and zeros are valid hints. They stay
        // mapped as long as the chunk, which is borrowed.
        unsafe {
            Map {
                pages: self.pages,
                leaves: slice::from_raw_parts(self.leaves.as_ptr(), leaves),
                summaries: slice::from_raw_parts(self.summaries.as_ptr(), summaries),
            }
        }
    }

    /// Returns a page by its index in the chunk.
    pub fn page<'a>(&'a self, index: usize, geometry: &'a Geometry) -> Page<'a> {
        assert!(index < self.pages);
        Page {
            // SAFETY: the index is below `pages`, checked above, and the chunk holds that many
            // records, which stay mapped while it is borrowed.
            record: unsafe { self.records.add(index).as_ref() },
            geometry,
            // SAFETY: the index is below `pages`, checked above, so the page starts within the
            // mapping.
            start: unsafe { self.start.add(index * geometry.page) },
            capacity: geometry.capacity(self.first_page + index),
        }
    }

    /// Returns the page and the index in it of the descriptor at an address, if there is one.
    pub fn find(&self, address: usize, geometry: &Geometry) -> Option<(usize, usize)> {
        let distance = address.checked_sub(self.start.addr().get())?;
        let (page, rest) = (distance / geometry.page, distance % geometry.page);
        let index = rest / geometry.stride;
        let there = page < self.pages
            && rest % geometry.stride == 0
            && index < geometry.capacity(self.first_page + page);
        there.then_some((page, index))
    }

    /// Returns a page that may have free descriptors: the lowest according to the hints.
    pub fn available(&self, geometry: &Geometry) -> Option<usize> {
        self.hints()
            .available(|page| self.page(page, geometry).has_free())
    }

    /// Records that a page has nothing free, unless something is free by now.
    pub fn exhaust(&self, page: usize, geometry: &Geometry) {
        self.hints()
            .exhaust(page, || self.page(page, geometry).has_free());
    }

    /// Records that a page has something free.
    pub fn replenish(&self, page: usize) {
        self.hints().replenish(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::type_stable::layout::first_page;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::atomic::AtomicUsize;

    fn with_chunk(pages: usize, work: impl FnOnce(&Chunk, &Geometry)) {
        let geometry = Geometry {
            limit: usize::MAX / 2,
            ..Geometry::of::<AtomicUsize>(None).unwrap()
        };
        let chunk = Chunk::map(0, pages, &geometry).unwrap();
        // SAFETY: mapped above, and not unmapped before the end of this function.
        work(unsafe { chunk.as_ref() }, &geometry);
        // SAFETY: mapped above, and the borrow for `work` has ended.
        unsafe { Chunk::unmap(chunk) };
    }

    fn use_up(page: Page<'_>) {
        while page.take(32, |_| ()).is_some() {}
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes long to interpret")]
    fn pages_are_found_from_the_lowest_up() {
        for pages in [1, 16, 63, 64, 65, 4096, 4097, 5000] {
            with_chunk(pages, |chunk, geometry| {
                for page in 0..pages {
                    assert_eq!(chunk.available(geometry), Some(page));
                    use_up(chunk.page(page, geometry));
                    chunk.exhaust(page, geometry);
                }
                assert_eq!(chunk.available(geometry), None);
                for page in [pages - 1, pages / 2, 0] {
                    chunk.page(page, geometry).put(0);
                    chunk.replenish(page);
                    assert_eq!(chunk.available(geometry), Some(page));
                }
            });
        }
    }

    /// A delayed thread sets the bit of an exhausted page after other threads have freed something.
    #[test]
    fn a_page_with_free_descriptors_is_not_exhausted_for_long() {
        with_chunk(70, |chunk, geometry| {
            for page in 0..70 {
                use_up(chunk.page(page, geometry));
                chunk.exhaust(page, geometry);
            }
            chunk.page(3, geometry).put(1);
            chunk.exhaust(3, geometry);
            assert_eq!(chunk.available(geometry), Some(3));
        });
    }

    /// A thread finds a page exhausted, all of it is freed, and the thread sets the bit. Before it
    /// looks below the bit again, others allocate, and it never continues.
    #[test]
    fn what_a_thread_that_never_goes_on_took_for_exhausted_is_found() {
        for pages in [1, 31, 33, 64, 1025, 5000] {
            with_chunk(pages, |chunk, geometry| {
                for page in 0..pages {
                    use_up(chunk.page(page, geometry));
                    chunk.exhaust(page, geometry);
                }
                assert_eq!(chunk.available(geometry), None);
                for page in [pages - 1, pages / 2, 0] {
                    let allocates = || {
                        for _round in 0..3 {
                            chunk.page(page, geometry).put(0);
                            chunk.replenish(page);
                            assert_eq!(chunk.available(geometry), Some(page));
                            use_up(chunk.page(page, geometry));
                            chunk.exhaust(page, geometry);
                            assert_eq!(chunk.available(geometry), None);
                        }
                    };
                    chunk.page(page, geometry).put(0);
                    chunk.replenish(page);
                    let stopped = catch_unwind(AssertUnwindSafe(|| {
                        chunk.hints().exhaust(page, || {
                            assert_eq!(chunk.available(geometry), Some(page));
                            use_up(chunk.page(page, geometry));
                            allocates();
                            resume_unwind(Box::new("stopped"))
                        });
                    }));
                    let what = stopped.expect_err("it never went on");
                    assert_eq!(what.downcast_ref(), Some(&"stopped"));
                    allocates();
                }
            });
        }
    }

    /// Measured in addresses, which count on systems that do not overcommit.
    #[test]
    fn a_limited_pool_takes_little_more_than_its_descriptors() {
        fn check<T: crate::type_stable::Descriptor>() {
            for limit in (1..40).chain([100, 500, 1000]) {
                let geometry = Geometry::of::<T>(Some(limit)).unwrap();
                let chunks = (0..).map(|chunk| (first_page(chunk), geometry.pages_of_chunk(chunk)));
                let chunks = chunks.take_while(|(_, pages)| *pages > 0);
                let parts = chunks.map(|(first, pages)| Parts::of(first, pages, &geometry));
                let (bytes, records) = parts.fold((0, 0), |(bytes, records), parts| {
                    let parts = parts.unwrap();
                    (bytes + parts.bytes, records + parts.start)
                });
                let needed = limit * geometry.stride;
                let max = needed + needed / 7 + geometry.system + records;
                assert!(
                    bytes <= max,
                    "{bytes} bytes for {limit} of {}",
                    geometry.stride
                );
            }
        }
        check::<AtomicUsize>();
        check::<[AtomicUsize; 510]>();
        check::<[AtomicUsize; 520]>();
        check::<[AtomicUsize; 8192]>();
        check::<[AtomicUsize; 655_360]>();
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
