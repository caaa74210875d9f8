//! The C library's allocator, called directly: `malloc` and `free` have thread caches of their own, which is what a
//! pool must beat. The block is black-boxed and written to, so the pair cannot be removed.

use std::hint::black_box;
use std::ptr::NonNull;

use crate::bench::experiments::{Block, Blocks};

/// The C library's allocator.
pub struct Malloc;

/// A block of its.
pub struct Allocated(NonNull<u64>);

impl Blocks for Malloc {
    type Block = Allocated;

    #[inline(always)]
    fn get(&self) -> Allocated {
        // SAFETY: malloc may be called with any size.
        let block = unsafe { libc::malloc(64) };
        match NonNull::new(block.cast()) {
            Some(block) => Allocated(block),
            None => std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u64; 8]>()),
        }
    }

    #[inline(always)]
    fn put(&self, block: Allocated) {
        // SAFETY: the block came from malloc in `get` and is given up here; `Allocated` is not Clone.
        unsafe { libc::free(block.0.as_ptr().cast()) };
    }
}

impl Block for Allocated {
    #[inline(always)]
    fn keeps(&mut self, mark: u64) -> bool {
        let word = self.0.as_ptr();
        // SAFETY: malloc gave 64 bytes, aligned for any type, and `free` waits until the block is put back.
        unsafe { word.write(mark) };
        // SAFETY: as above, and it was written just now.
        unsafe { black_box(word).read() == mark }
    }
}
