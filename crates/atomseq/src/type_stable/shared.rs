//! What all CPUs of a pool share: chunks, and the search for free descriptors.

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

/// The address of a descriptor that its holder alone may put back.
#[derive(Debug)]
pub(super) struct Address(pub NonNull<u8>);

// SAFETY: it stands for a descriptor, which all threads may use.
unsafe impl Send for Address {}

// SAFETY: as a pointer, whose provenance is exposed.
unsafe impl AsWord for Address {
    #[inline]
    fn into_word(self) -> usize {
        self.0.into_word()
    }

    #[inline]
    unsafe fn from_word(word: usize) -> Address {
        // SAFETY: the caller's promise: `into_word` made it of a pointer.
        Address(unsafe { NonNull::from_word(word) })
    }
}

/// The chunks of a pool; chunk by chunk, they are mapped when those before are exhausted.
#[derive(Debug)]
pub(super) struct Shared {
    geometry: Geometry,
    chunks: [AtomicPtr<Chunk>; CHUNKS],
    growth: Growth,
    /// How many descriptors a CPU gets at a time.
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

    /// A chunk, if it is mapped.
    fn chunk(&self, index: usize) -> Option<&Chunk> {
        // Acquire: pairs with the exchange in `map_and_publish`.
        let chunk = self.chunks[index].load(Ordering::Acquire);
        // SAFETY: a chunk that was mapped stays so as long as `self`.
        unsafe { chunk.as_ref() }
    }

    /// A chunk that this thread or another one maps.
    #[cold]
    fn map(&self, index: usize) -> Result<&Chunk, Error> {
        let (find, map) = (|| self.chunk(index), || self.map_and_publish(index));
        let mapped = self.growth.find_or_grow(find, map);
        mapped.ok_or(Error::OutOfMemory)
    }

    fn map_and_publish(&self, index: usize) -> Option<&Chunk> {
        let pages = self.geometry.pages_of_chunk(index);
        let chunk = Chunk::map(first_page(index), pages, &self.geometry)?;
        // Release: publishes what the chunk says of itself; pairs with the Acquire in `chunk`.
        let published = self.chunks[index].compare_exchange(
            ptr::null_mut(),
            chunk.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if published.is_err() {
            // A handler, or a thread that has taken the turn over, was faster.
            // SAFETY: nobody else knows this one.
            unsafe { Chunk::unmap(chunk) };
        }
        self.chunk(index)
    }

    /// Takes up to `most` descriptors, at least one, from the lowest page that has any.
    pub fn take(&self, most: usize, mut take: impl FnMut(NonNull<u8>)) -> Result<(), Error> {
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
                let taken = page.take(most, &mut take);
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

    /// The chunk, the page and the number of the descriptor at an address.
    fn find(&self, address: usize) -> Option<(&Chunk, usize, usize)> {
        // Half of all descriptors lie in the last chunk.
        (0..CHUNKS).rev().find_map(|index| {
            let chunk = self.chunk(index)?;
            let (page, index) = chunk.find(address, &self.geometry)?;
            Some((chunk, page, index))
        })
    }

    /// The descriptor at an address, if there is one, and what is kept beside it.
    pub fn descriptor_at(&self, address: usize) -> Option<(NonNull<u8>, &Header)> {
        let (chunk, page, index) = self.find(address)?;
        let page = chunk.page(page, &self.geometry);
        Some((page.descriptor(index), page.header(index)))
    }

    /// Every page that may ever have been used.
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
        // An empty batch has room, and why there is none is asked again by who needs to know.
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
                // SAFETY: mapped by `map_and_publish`; nobody borrows the pool any more.
                unsafe { Chunk::unmap(chunk) };
            }
        }
    }
}
