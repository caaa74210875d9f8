//! The memory layout of descriptors.
//!
//! ```text
//! chunk 0        16 pages        each a mapping of its own, twice as large as the one before
//! chunk 1        32 pages
//! chunk 2        64 pages …
//!
//! a chunk:       | this record | which pages are exhausted | a record a page | page 0 | page 1 | …
//!
//! a page:        | descriptor 0 | descriptor 1 | …              as many as fit, a few KiB in all
//!
//! a descriptor:  +-----------------------------+---------+-----------+------+
//!                | T                           | version | unclaimed | link |     64 bytes, or
//!                +-----------------------------+---------+-----------+------+     a multiple
//!                ^ its address, aligned to 64    odd while allocated
//! ```
//!
//! A page is the unit that goes back to the system. It consists of as many system pages as needed
//! to waste at most an eighth. If the limit cuts the last page short, its system pages without a
//! descriptor are left out. A chunk stays mapped while the pool lives; a page that is given back
//! loses its memory but keeps its addresses.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicUsize};

use super::Error;
use super::descriptor::Descriptor;
use crate::platform;

/// The words kept beside each descriptor. Zeros in a fresh page.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Header {
    /// Odd while allocated. Each allocation and each release increases it, and it never repeats. 0:
    /// not used since the page was fresh.
    pub version: AtomicUsize,
    /// The moment when an audit first found the descriptor unclaimed, or the number of an audit
    /// that is about to record it: see `unclaimed`. 0: claimed since.
    pub unclaimed: AtomicU32,
    /// While free in its page: the distance of the next free descriptor beyond the adjacent one.
    pub link: AtomicU32,
}

/// A descriptor with its header.
#[repr(C, align(64))]
pub(super) struct Framed<T> {
    pub descriptor: T,
    pub header: Header,
}

/// The number of pages in the first chunk.
const FIRST: usize = 16;

/// The max number of chunks of a pool: together they exceed the address space.
pub(super) const CHUNKS: usize = if cfg!(target_pointer_width = "64") {
    31
} else {
    16
};

/// The bytes that a program can address.
const ADDRESS_SPACE: usize = if cfg!(target_pointer_width = "64") {
    (1u64 << 46) as usize
} else {
    1 << 30
};

/// The sizes of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    /// The distance between adjacent descriptors in bytes.
    pub stride: usize,
    /// The offset of the header from its descriptor in bytes.
    pub header: usize,
    /// The size of a page in bytes, except for a last page that the limit cuts short.
    pub page: usize,
    /// The size of the system's pages in bytes.
    pub system: usize,
    /// The number of descriptors in a page, at most 65,535.
    pub per_page: usize,
    /// The max number of descriptors.
    pub limit: usize,
}

impl Geometry {
    /// Computes the sizes of a pool of up to `limit` descriptors, or of as many as fit.
    pub fn of<T: Descriptor>(limit: Option<usize>) -> Result<Geometry, Error> {
        const {
            assert!(
                !std::mem::needs_drop::<T>(),
                "a descriptor is never dropped, so it may hold nothing that has to be"
            );
        }
        let stride = size_of::<Framed<T>>();
        let system = platform::page_size();
        if align_of::<Framed<T>>() > system || stride > ADDRESS_SPACE / FIRST / 2 {
            return Err(Error::TooLarge);
        }
        let mut page = system;
        while page < stride || page % stride > page / 8 {
            page *= 2;
        }
        let per_page = (page / stride).min(usize::from(u16::MAX));
        let max = (ADDRESS_SPACE / page) * per_page;
        let limit = limit.unwrap_or(max);
        match limit {
            0 => Err(Error::Zero),
            _ if limit > max => Err(Error::TooLarge),
            _ => Ok(Geometry {
                stride,
                header: offset_of!(Framed<T>, header),
                page,
                system,
                per_page,
                limit,
            }),
        }
    }

    /// Returns the max number of pages.
    pub fn pages(&self) -> usize {
        self.limit.div_ceil(self.per_page)
    }

    /// Returns the number of descriptors in a page; the limit may cut the last one short.
    pub fn capacity(&self, page: usize) -> usize {
        (self.limit - page * self.per_page).min(self.per_page)
    }

    /// Returns the size in bytes of a page with this many descriptors: a multiple of the system's
    /// page size.
    pub fn bytes_of_page(&self, capacity: usize) -> usize {
        match capacity == self.per_page {
            true => self.page,
            false => (capacity * self.stride).next_multiple_of(self.system),
        }
    }

    /// Returns the number of pages in a chunk, or 0 if the limit ends before it.
    pub fn pages_of_chunk(&self, chunk: usize) -> usize {
        (FIRST << chunk).min(self.pages().saturating_sub(first_page(chunk)))
    }
}

/// Returns the number of a chunk's first page.
pub(super) fn first_page(chunk: usize) -> usize {
    FIRST * ((1 << chunk) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    fn geometry<T: Descriptor>(limit: Option<usize>) -> Geometry {
        Geometry::of::<T>(limit).unwrap()
    }

    #[test]
    fn small_descriptors_take_one_cache_line() {
        let sizes = geometry::<[AtomicU64; 6]>(None);
        assert_eq!(sizes.stride, 64);
        assert_eq!(sizes.per_page * 64, sizes.page);
        assert_eq!(geometry::<[AtomicU64; 7]>(None).stride, 128);
    }

    #[test]
    fn little_of_a_page_is_wasted() {
        fn wasted<T: Descriptor>() -> (usize, usize) {
            let sizes = geometry::<T>(None);
            (sizes.page - sizes.per_page * sizes.stride, sizes.page)
        }
        for (wasted, page) in [
            wasted::<AtomicUsize>(),
            wasted::<[AtomicU64; 100]>(),
            wasted::<[AtomicU64; 300]>(),
            wasted::<[AtomicU64; 520]>(),
            wasted::<[AtomicU64; 5000]>(),
        ] {
            assert!(wasted <= page / 8, "{wasted} of {page} bytes wasted");
        }
    }

    #[test]
    fn chunks_follow_one_another_up_to_the_limit() {
        let sizes = geometry::<AtomicUsize>(Some(1_000_000));
        let mut pages = 0;
        for chunk in 0..CHUNKS {
            let of_chunk = sizes.pages_of_chunk(chunk);
            assert!(of_chunk == 0 || pages == first_page(chunk));
            pages += of_chunk;
        }
        assert_eq!(pages, sizes.pages());
        let capacity: usize = (0..pages).map(|page| sizes.capacity(page)).sum();
        assert_eq!(capacity, 1_000_000);
    }

    #[test]
    fn without_a_limit_there_are_chunks_enough() {
        let sizes = geometry::<AtomicUsize>(None);
        let pages: usize = (0..CHUNKS).map(|chunk| sizes.pages_of_chunk(chunk)).sum();
        assert_eq!(pages, sizes.pages());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let limit = |limit| Geometry::of::<AtomicUsize>(Some(limit)).map(|sizes| sizes.limit);
        assert_eq!(limit(0), Err(Error::Zero));
        assert_eq!(limit(usize::MAX), Err(Error::TooLarge));
        assert_eq!(limit(1), Ok(1));
        #[cfg(target_pointer_width = "64")]
        {
            type Huge = [AtomicU64; 1 << 42];
            assert_eq!(Geometry::of::<Huge>(None).err(), Some(Error::TooLarge));
        }
    }
}
