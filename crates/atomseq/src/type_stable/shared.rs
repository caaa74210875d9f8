//! The part of a pool that all CPUs share: its chunks, and the search for free descriptors.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::Error;
use super::chunk::Chunk;
use super::free::Free;
use super::layout::{CHUNKS, Geometry, Header, first_page};
use super::page::{BATCH, Page};
use crate::AsWord;
use crate::growth::Growth;
use crate::percpu::{Batch, Source};

/// The address of a descriptor that only the holder may put back.
#[derive(Debug)]
pub(super) struct Address(pub NonNull<u8>);

// SAFETY: it is the right to put a descriptor back, which is not bound to a thread; the descriptor
// itself is shared by all threads.
unsafe impl Send for Address {}

// SAFETY: it forwards to `NonNull<u8>`, whose implementation fulfils the contract.
unsafe impl AsWord for Address {
    #[inline]
    fn into_word(self) -> usize {
        self.0.into_word()
    }

    #[inline]
    unsafe fn from_word(word: usize) -> Address {
        // SAFETY: by the contract, `into_word` made the word, and that forwards to `NonNull`.
        Address(unsafe { NonNull::from_word(word) })
    }
}

/// The chunks of a pool, each mapped when those before it are exhausted.
#[derive(Debug)]
pub(super) struct Shared {
    geometry: Geometry,
    chunks: [AtomicPtr<Chunk>; CHUNKS],
    growth: Growth,
    /// The number of descriptors that a CPU's stack is refilled with.
    batch: usize,
}

impl Shared {
    pub fn new(geometry: Geometry, cached: usize) -> Shared {
        Shared {
            geometry,
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            growth: Growth::new(),
            batch: (cached / 2 + 1).min(BATCH),
        }
    }

    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns a chunk if it is mapped.
    fn chunk(&self, index: usize) -> Option<&Chunk> {
        // Acquire: pairs with the Release exchange in `map_and_publish`.
        let chunk = self.chunks[index].load(Ordering::Acquire);
        // SAFETY: the pointer is null or was published by `map_and_publish`, and chunks are
        // unmapped only when `self` is dropped.
        unsafe { chunk.as_ref() }
    }

    /// Returns a chunk, which this thread or another one maps.
    #[cold]
    fn map(&self, index: usize) -> Result<&Chunk, Error> {
        let (find, map) = (|| self.chunk(index), || self.map_and_publish(index));
        let mapped = self.growth.find_or_grow(find, map);
        mapped.ok_or(Error::OutOfMemory)
    }

    fn map_and_publish(&self, index: usize) -> Option<&Chunk> {
        let pages = self.geometry.pages_of_chunk(index);
        let chunk = Chunk::map(first_page(index), pages, &self.geometry)?;
        // Release: publishes the chunk's record; pairs with the Acquire in `chunk`. Acquire: as in
        // `chunk`, though `chunk` loads the pointer again.
        let published = self.chunks[index].compare_exchange(
            ptr::null_mut(),
            chunk.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if published.is_err() {
            // A signal handler, or a thread that took the turn over, published first.
            // SAFETY: this chunk was not published, so no other thread can reach it.
            unsafe { Chunk::unmap(chunk) };
        }
        self.chunk(index)
    }

    /// Takes up to `max` descriptors, at least one, from the lowest page that has any free.
    pub fn take(&self, max: usize, mut take: impl FnMut(NonNull<u8>)) -> Result<(), Error> {
        for index in 0..CHUNKS {
            if self.geometry.pages_of_chunk(index) == 0 {
                break;
            }
            let chunk = match self.chunk(index) {
                Some(chunk) => chunk,
                None => self.map(index)?,
            };
            while let Some(number) = chunk.available(&self.geometry) {
                let page = chunk.page(number, &self.geometry);
                let taken = page.take(max, &mut take);
                if !page.has_free() {
                    chunk.exhaust(number, &self.geometry);
                }
                if taken.is_some() {
                    return Ok(());
                }
            }
        }
        Err(Error::LimitReached)
    }

    /// Puts a descriptor back into its page.
    pub fn put(&self, address: Address) {
        let found = self.find(address.0.addr().get());
        let (chunk, page, index) = found.expect("the descriptor of another pool");
        chunk.page(page, &self.geometry).put(index);
        chunk.replenish(page);
    }

    /// Returns the chunk, the page and the index of the descriptor at an address.
    fn find(&self, address: usize) -> Option<(&Chunk, usize, usize)> {
        // From the last chunk backwards: it holds about half of all descriptors.
        (0..CHUNKS).rev().find_map(|index| {
            let chunk = self.chunk(index)?;
            let (page, index) = chunk.find(address, &self.geometry)?;
            Some((chunk, page, index))
        })
    }

    /// Returns the descriptor at an address, if there is one, and its header.
    pub fn descriptor_at(&self, address: usize) -> Option<(NonNull<u8>, &Header)> {
        let (chunk, page, index) = self.find(address)?;
        let page = chunk.page(page, &self.geometry);
        Some((page.descriptor(index), page.header(index)))
    }

    /// Iterates over every page that may have been used.
    pub fn pages(&self) -> impl Iterator<Item = (&Chunk, usize, Page<'_>)> {
        (0..CHUNKS)
            .map_while(|index| self.chunk(index))
            .flat_map(move |chunk| {
                let page = move |number| (chunk, number, chunk.page(number, &self.geometry));
                (0..chunk.pages()).map(page)
            })
            .filter(|(_, _, page)| page.load().word() != 0)
    }
}

impl Source<Address> for Shared {
    fn refill(&self, batch: &mut Batch<Address>) {
        // An empty batch has room for all. An error is ignored: a caller that needs the reason
        // calls `take` itself.
        let _ = self.take(self.batch, |descriptor| {
            _ = batch.push(Address(descriptor));
        });
    }

    fn spill(&self, batch: &mut Batch<Address>) {
        batch.for_each(|address| self.put(address));
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for chunk in &mut self.chunks {
            if let Some(chunk) = NonNull::new(*chunk.get_mut()) {
                // SAFETY: mapped by `map_and_publish`; `&mut self` excludes every other user of the
                // chunk.
                unsafe { Chunk::unmap(chunk) };
            }
        }
    }
}
