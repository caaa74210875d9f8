//! Where areas, and chunks of queues and pools, get their memory: the operating system, and for
//! small ones a page they share.
//!
//! A counter on a machine with few CPUs takes a few hundred bytes. A page of its own would cost a
//! program with a thousand counters megabytes, and an entry of the address cache each. So small
//! areas are cut from blocks; freed, they wait by size for the next one. Blocks are kept for good.
//! Nothing here touches the global allocator, for an allocator may be built on an area.
//!
//! Large ones are [mappings](crate::mappings) of their own.
//!
//! The blocks are behind a lock, with signals blocked. Memory is asked of the system outside of it:
//! a sandbox may answer the system call by a signal. One thread at a time [asks](crate::growth) for
//! a block. Large memory is had and given back without a lock.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use super::area::SLOT_BYTES;
use super::lock::{is_abandoned, lock, unlock};
use crate::growth::Growth;
use crate::{mappings, platform};

/// Areas up to this size are cut from blocks.
const SMALL: usize = 2048;

/// The size of a block.
const BLOCK: usize = 1 << 16;

/// Small sizes, each a multiple of a slot's.
const SIZES: usize = SMALL / SLOT_BYTES;

/// Zeroed memory, aligned to a slot's size; a whole mapping if it is large.
pub(crate) fn allocate(bytes: usize) -> Option<NonNull<u8>> {
    let Some(index) = size_index(bytes) else {
        return mappings::map(bytes);
    };
    let from_blocks = || with_blocks(|blocks| blocks.allocate(index));
    GROWTH.find_or_grow(from_blocks, || allocate_from_new_block(index))
}

#[cold]
fn allocate_from_new_block(index: usize) -> Option<NonNull<u8>> {
    let block = mappings::map(BLOCK)?;
    let (piece, unused) = with_blocks(|blocks| match blocks.allocate(index) {
        // A handler, or a thread that has taken the turn over, was faster.
        Some(piece) => (Some(piece), Some(block)),
        None => {
            blocks.add(block);
            (blocks.allocate(index), None)
        }
    });
    if let Some(block) = unused {
        // SAFETY: mapped above, and in nobody's hands.
        unsafe { mappings::unmap(block, BLOCK) };
    }
    piece
}

/// Gives memory back. Large memory without waiting for other threads.
///
/// # Safety
///
/// `allocate` gave it for this size, and nobody uses it any more.
pub(crate) unsafe fn free(start: NonNull<u8>, bytes: usize) {
    let Some(index) = size_index(bytes) else {
        // SAFETY: the caller's promise: a mapping for this size.
        return unsafe { mappings::unmap(start, bytes) };
    };
    // SAFETY: the caller's promise: a piece of this size.
    with_blocks(|blocks| unsafe { blocks.free(start, index) })
}

/// Which of the small sizes this is, if it is small.
fn size_index(bytes: usize) -> Option<usize> {
    (1..=SMALL)
        .contains(&bytes)
        .then(|| bytes.div_ceil(SLOT_BYTES) - 1)
}

/// A free piece; its first word leads to the next one of its size.
struct Free {
    next: Option<NonNull<Free>>,
}

struct Blocks {
    free: [Option<NonNull<Free>>; SIZES],
    /// What is left of the newest block.
    rest: Option<NonNull<u8>>,
    rest_bytes: usize,
}

impl Blocks {
    /// A piece of this size, zeroed; `None` if that takes another block.
    fn allocate(&mut self, index: usize) -> Option<NonNull<u8>> {
        let bytes = (index + 1) * SLOT_BYTES;
        if let Some(piece) = self.free[index] {
            // SAFETY: free pieces hold their link.
            self.free[index] = unsafe { piece.read() }.next;
            // SAFETY: a piece of this size that nobody uses.
            unsafe { piece.cast::<u8>().write_bytes(0, bytes) };
            return Some(piece.cast());
        }
        if self.rest_bytes < bytes {
            return None;
        }
        let piece = self.rest?;
        self.rest_bytes -= bytes;
        // SAFETY: there were `bytes` bytes left; past the last of them is still the block's end.
        self.rest = Some(unsafe { piece.add(bytes) });
        Some(piece)
    }

    /// Goes on with a new block. Less than a piece was left of the last one.
    fn add(&mut self, block: NonNull<u8>) {
        if let Some(rest) = self.rest.filter(|_| self.rest_bytes > 0) {
            // SAFETY: the end of the old block, which nobody uses.
            unsafe { self.free(rest, self.rest_bytes / SLOT_BYTES - 1) };
        }
        (self.rest, self.rest_bytes) = (Some(block), BLOCK);
    }

    /// # Safety
    ///
    /// A piece of this size that nobody uses.
    unsafe fn free(&mut self, start: NonNull<u8>, index: usize) {
        let piece = start.cast::<Free>();
        // SAFETY: the caller's promise; a piece is aligned to 128 bytes and holds a link.
        unsafe {
            piece.write(Free {
                next: self.free[index],
            })
        };
        self.free[index] = Some(piece);
    }
}

static LOCK: AtomicU32 = AtomicU32::new(0);
/// For another block.
static GROWTH: Growth = Growth::new();
static BLOCKS: Shared = Shared(UnsafeCell::new(NO_BLOCKS));

const NO_BLOCKS: Blocks = Blocks {
    free: [None; SIZES],
    rest: None,
    rest_bytes: 0,
};

struct Shared(UnsafeCell<Blocks>);
// SAFETY: only touched under LOCK.
unsafe impl Sync for Shared {}

/// Works on the blocks alone: no signal handler on this thread and no fork meanwhile. `work` makes
/// no system call.
fn with_blocks<R>(work: impl FnOnce(&mut Blocks) -> R) -> R {
    let _quiet = platform::SignalsBlocked::enter();
    let before = lock(&LOCK);
    // SAFETY: this thread holds the lock, and `work` neither comes back here nor panics.
    let blocks = unsafe { &mut *BLOCKS.0.get() };
    if is_abandoned(before) {
        // In a child, what another thread of the parent has left half done.
        *blocks = NO_BLOCKS;
    }
    let result = work(blocks);
    unlock(&LOCK);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_zeroed_aligned_and_apart() {
        let sizes = [128, 640, 512, 2048, 2049, 128, 4096, 100_000];
        let mut pieces = Vec::new();
        for round in 0..200 {
            let bytes = sizes[round % sizes.len()];
            let piece = allocate(bytes).unwrap();
            assert!(piece.addr().get().is_multiple_of(SLOT_BYTES));
            for index in 0..bytes {
                // SAFETY: within the piece.
                assert_eq!(unsafe { piece.add(index).read() }, 0);
            }
            // SAFETY: the whole piece.
            unsafe { piece.write_bytes(round as u8 | 1, bytes) };
            pieces.push((piece, bytes, round as u8 | 1));
            if round % 3 == 2 {
                let (piece, bytes, _) = pieces.swap_remove(round / 2 % pieces.len());
                // SAFETY: allocated above, and taken off the list.
                unsafe { free(piece, bytes) };
            }
        }
        for (piece, bytes, mark) in pieces {
            for index in 0..bytes {
                // SAFETY: within the piece.
                assert_eq!(unsafe { piece.add(index).read() }, mark, "pieces overlap");
            }
            // SAFETY: allocated above.
            unsafe { free(piece, bytes) };
        }
    }

    #[test]
    fn small_areas_share_pages() {
        let pieces: Vec<_> = (0..64).map(|_| allocate(512).unwrap()).collect();
        let mut pages: Vec<usize> = pieces
            .iter()
            .map(|piece| piece.addr().get() / 4096)
            .collect();
        pages.sort_unstable();
        pages.dedup();
        assert!(
            pages.len() < 32,
            "64 areas of 512 bytes lie on {} pages",
            pages.len()
        );
        for piece in pieces {
            // SAFETY: allocated above.
            unsafe { free(piece, 512) };
        }
    }
}
