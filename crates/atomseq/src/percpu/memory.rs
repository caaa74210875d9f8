//! Memory for areas, and for chunks of queues and pools. Large requests are
//! [mappings](crate::mappings) of their own; small ones share pages.
//!
//! A counter on a machine with few CPUs needs a few hundred bytes. With a page for each, a thousand
//! counters would cost a program megabytes, and one TLB entry each. Small areas are therefore cut
//! from blocks. A freed piece is kept in a list by size and is reused. Blocks are never returned to
//! the system. Nothing here calls the global allocator, because an allocator may be built on an
//! area.
//!
//! A lock protects the blocks, with signals blocked. Memory is requested from the system outside
//! the lock, because a sandbox may answer the system call with a signal. One thread at a time
//! [maps](crate::growth) a new block. Large memory is mapped and unmapped without a lock.

use std::cell::UnsafeCell;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::area::{SLOT_BYTES, started, started_at_once};
use super::lock::{is_abandoned, lock, try_lock, unlock};
use crate::growth::Growth;
use crate::{mappings, platform};

/// The largest size in bytes that is cut from a block.
const SMALL: usize = 2048;

/// The size of a block in bytes.
const BLOCK: usize = 1 << 16;

/// The number of small sizes. Each is a multiple of a slot's size.
const SIZES: usize = SMALL / SLOT_BYTES;

/// Allocates zeroed memory, aligned to a slot's size. Starts atomseq if it has not been started.
/// Large memory is a mapping of its own. `None` if the system refuses it, or during start-up.
pub(crate) fn allocate(bytes: usize) -> Option<NonNull<u8>> {
    // Before start-up, forks do not wait for the holder of the lock, and a child would take it for
    // a thread of its own.
    started().ok()?;
    let Some(index) = size_index(bytes) else {
        return mappings::map(bytes);
    };
    let from_blocks = || with_blocks(|blocks| blocks.allocate(index));
    let from_new_block = || allocate_from_new_block(index, |work| Some(with_blocks(work)));
    GROWTH.find_or_grow(from_blocks, from_new_block)
}

/// Allocates as [`allocate`] does, but spins only briefly for another thread that holds the lock or
/// maps a block. `None` also if that takes longer, and while another thread starts atomseq or
/// forks.
pub(crate) fn allocate_at_once(bytes: usize) -> Option<NonNull<u8>> {
    started_at_once().ok()?;
    let Some(index) = size_index(bytes) else {
        return mappings::map(bytes);
    };
    // A look that found the blocks locked, or a fork in progress, does not lead to a system call
    // for memory, which the kernel makes wait for a fork.
    if let Some(piece) = with_blocks_at_once(|blocks| blocks.allocate(index))? {
        return Some(piece);
    }
    let from_blocks = || with_blocks_at_once(|blocks| blocks.allocate(index))?;
    let from_new_block = || allocate_from_new_block(index, |work| with_blocks_at_once(work));
    GROWTH.find_or_grow_at_once(from_blocks, from_new_block)
}

/// A piece, and a block that is not used.
type Cut = (Option<NonNull<u8>>, Option<NonNull<u8>>);

/// Maps a block, and adds it where `access` calls its argument with the blocks; `None` from
/// `access` means that it did not.
#[cold]
fn allocate_from_new_block(
    index: usize,
    access: impl FnOnce(&mut dyn FnMut(&mut Blocks) -> Cut) -> Option<Cut>,
) -> Option<NonNull<u8>> {
    let block = mappings::map(BLOCK)?;
    let cut = access(&mut |blocks| match blocks.allocate(index) {
        // A handler, or a thread that has taken over the turn to map, added a block first.
        Some(piece) => (Some(piece), Some(block)),
        None => {
            blocks.add(block);
            (blocks.allocate(index), None)
        }
    });
    let (piece, unused) = cut.unwrap_or((None, Some(block)));
    if let Some(block) = unused {
        // SAFETY: mapped above and not shared: `blocks` did not take it.
        unsafe { mappings::unmap(block, BLOCK) };
    }
    piece
}

/// Frees memory. Large memory is freed without waiting for other threads.
///
/// # Safety
///
/// `allocate` returned `start` for this size, and no reference to the memory is left.
pub(crate) unsafe fn free(start: NonNull<u8>, bytes: usize) {
    let Some(index) = size_index(bytes) else {
        // SAFETY: the caller guarantees that `allocate` returned this start for this size: a
        // mapping, since it is large.
        return unsafe { mappings::unmap(start, bytes) };
    };
    // SAFETY: the caller guarantees that `allocate` returned this start for this size, and that it
    // is unused.
    with_blocks(|blocks| unsafe { blocks.free(start, index) })
}

/// Frees memory as [`free`] does, and waits for no other thread, nor for a fork. The blocks get a
/// small piece at the next access to them.
///
/// # Safety
///
/// As for [`free`].
pub(crate) unsafe fn free_at_once(start: NonNull<u8>, bytes: usize) {
    let Some(index) = size_index(bytes) else {
        // SAFETY: the caller guarantees that `allocate` returned this start for this size: a
        // mapping, since it is large.
        return unsafe { mappings::unmap(start, bytes) };
    };
    let piece = start.cast::<Freed>().as_ptr();
    // Relaxed: the exchange compares it, and only `with_lock` reads what is behind it.
    let mut next = FREED.load(Ordering::Relaxed);
    loop {
        // SAFETY: the caller guarantees an unused piece. Pieces are aligned to 128 bytes and larger
        // than a `Freed`.
        unsafe { piece.write(Freed { next, index }) };
        // Release: pairs with the Acquire in `with_lock`. A piece may be freed, taken and freed
        // again meanwhile: it is the first of the list nevertheless.
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        match FREED.compare_exchange_weak(next, piece, success, failure) {
            Ok(_) => return,
            Err(now) => next = now,
        }
    }
}

/// Returns the index of the smallest piece size that fits; `None` for large memory.
fn size_index(bytes: usize) -> Option<usize> {
    (1..=SMALL)
        .contains(&bytes)
        .then(|| bytes.div_ceil(SLOT_BYTES) - 1)
}

/// A free piece. Its first word links the next free piece of the same size.
struct Free {
    next: Option<NonNull<Free>>,
}

/// A piece that [`free_at_once`] has freed, and its index of sizes.
struct Freed {
    next: *mut Freed,
    index: usize,
}

/// The pieces that no access to the blocks has found yet. All of them are taken together.
static FREED: AtomicPtr<Freed> = AtomicPtr::new(null_mut());

struct Blocks {
    free: [Option<NonNull<Free>>; SIZES],
    /// The unused end of the newest block.
    rest: Option<NonNull<u8>>,
    rest_bytes: usize,
}

impl Blocks {
    /// Allocates a zeroed piece; `None` if that needs a new block.
    fn allocate(&mut self, index: usize) -> Option<NonNull<u8>> {
        let bytes = (index + 1) * SLOT_BYTES;
        if let Some(piece) = self.free[index] {
            // SAFETY: `free` wrote a `Free` to every piece in this list.
            self.free[index] = unsafe { piece.read() }.next;
            // SAFETY: the piece has this size and has just left the list of free pieces, so no
            // other code uses it.
            unsafe { piece.cast::<u8>().write_bytes(0, bytes) };
            return Some(piece.cast());
        }
        if self.rest_bytes < bytes {
            return None;
        }
        let piece = self.rest?;
        self.rest_bytes -= bytes;
        // SAFETY: at least `bytes` bytes were left in the block, so the sum is at most the block's
        // end.
        self.rest = Some(unsafe { piece.add(bytes) });
        Some(piece)
    }

    /// Starts a new block. What is left of the old block is less than the requested piece, and
    /// becomes a free piece.
    fn add(&mut self, block: NonNull<u8>) {
        if let Some(rest) = self.rest.filter(|_| self.rest_bytes > 0) {
            // SAFETY: the rest of the old block is unused, and its size is a multiple of a slot's
            // and at most `SMALL`.
            unsafe { self.free(rest, self.rest_bytes / SLOT_BYTES - 1) };
        }
        (self.rest, self.rest_bytes) = (Some(block), BLOCK);
    }

    /// Adds a piece to the list of free pieces of its size.
    ///
    /// # Safety
    ///
    /// The piece has this size and no other code uses it.
    unsafe fn free(&mut self, start: NonNull<u8>, index: usize) {
        let piece = start.cast::<Free>();
        // SAFETY: the caller guarantees an unused piece. Pieces are aligned to 128 bytes and larger
        // than a `Free`.
        unsafe {
            piece.write(Free {
                next: self.free[index],
            })
        };
        self.free[index] = Some(piece);
    }
}

static LOCK: AtomicU32 = AtomicU32::new(0);
/// Selects the thread that maps the next block.
static GROWTH: Growth = Growth::new();
static BLOCKS: Shared = Shared(UnsafeCell::new(NO_BLOCKS));

const NO_BLOCKS: Blocks = Blocks {
    free: [None; SIZES],
    rest: None,
    rest_bytes: 0,
};

struct Shared(UnsafeCell<Blocks>);
// SAFETY: `with_lock` is the only access, under `LOCK`.
unsafe impl Sync for Shared {}

/// Calls `work` with exclusive access to the blocks. No signal handler runs on this thread
/// meanwhile, and no thread forks. `work` makes no system call.
fn with_blocks<R>(work: impl FnOnce(&mut Blocks) -> R) -> R {
    let _signals = platform::SignalsBlocked::enter();
    let before = lock(&LOCK);
    // SAFETY: this thread has just acquired `LOCK`, with signals blocked.
    unsafe { with_lock(before, work) }
}

/// Does the same; `None` if another thread has access for longer than this one spins, or forks.
fn with_blocks_at_once<R>(work: impl FnOnce(&mut Blocks) -> R) -> Option<R> {
    let _signals = platform::SignalsBlocked::try_enter()?;
    let before = try_lock(&LOCK)?;
    // SAFETY: this thread has just acquired `LOCK`, with signals blocked.
    Some(unsafe { with_lock(before, work) })
}

/// Calls `work` with the blocks, and releases the lock, whose word was `before`.
///
/// # Safety
///
/// This thread has acquired `LOCK`, and blocks signals.
unsafe fn with_lock<R>(before: u32, work: impl FnOnce(&mut Blocks) -> R) -> R {
    // SAFETY: the caller holds `LOCK` with signals blocked, and `work` neither accesses the blocks
    // in another way nor panics. The reference is therefore unique.
    let blocks = unsafe { &mut *BLOCKS.0.get() };
    if is_abandoned(before) {
        // This is the child of a fork, and another thread of the parent was changing the blocks:
        // they may be inconsistent.
        *blocks = NO_BLOCKS;
    }
    // Relaxed: a hint. Most of the time there is none, and the exchange is spared.
    if !FREED.load(Ordering::Relaxed).is_null() {
        // Acquire: pairs with the Release in `free_at_once`.
        let mut freed = FREED.swap(null_mut(), Ordering::Acquire);
        while let Some(piece) = NonNull::new(freed) {
            // SAFETY: `free_at_once` wrote a `Freed` to each piece of the list, which this thread
            // has taken whole.
            let Freed { next, index } = unsafe { piece.read() };
            freed = next;
            // SAFETY: the piece has this size, and its user has freed it.
            unsafe { blocks.free(piece.cast(), index) };
        }
    }
    let result = work(blocks);
    unlock(&LOCK);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_zeroed_aligned_and_disjoint() {
        let sizes = [128, 640, 512, 2048, 2049, 128, 4096, 100_000];
        let mut pieces = Vec::new();
        for round in 0..200 {
            let bytes = sizes[round % sizes.len()];
            let piece = allocate(bytes).unwrap();
            assert!(piece.addr().get().is_multiple_of(SLOT_BYTES));
            for index in 0..bytes {
                // SAFETY: the piece has `bytes` bytes, all initialized.
                assert_eq!(unsafe { piece.add(index).read() }, 0);
            }
            // SAFETY: the piece has `bytes` bytes, and only this test uses them.
            unsafe { piece.write_bytes(round as u8 | 1, bytes) };
            pieces.push((piece, bytes, round as u8 | 1));
            if round % 3 == 2 {
                let (piece, bytes, _) = pieces.swap_remove(round / 2 % pieces.len());
                // SAFETY: `allocate` returned the piece for this size, and it has left the vector.
                unsafe { free(piece, bytes) };
            }
        }
        for (piece, bytes, mark) in pieces {
            for index in 0..bytes {
                // SAFETY: the piece has `bytes` bytes, all initialized.
                assert_eq!(unsafe { piece.add(index).read() }, mark, "pieces overlap");
            }
            // SAFETY: `allocate` returned the piece for this size, and this is its last use.
            unsafe { free(piece, bytes) };
        }
    }

    /// This thread holds the lock itself, so a wait for it would never end.
    #[test]
    fn without_waiting_a_held_lock_is_a_refusal() {
        crate::status();
        let signals = platform::SignalsBlocked::enter();
        lock(&LOCK);
        let refused = allocate_at_once(512);
        unlock(&LOCK);
        drop(signals);
        assert_eq!(refused, None);
        // Without contention there is memory, unless another test holds the lock just then.
        let piece = std::iter::repeat_with(|| allocate_at_once(512)).find_map(|piece| piece);
        // SAFETY: `allocate_at_once` returned the piece for 512 bytes, and it is not used.
        unsafe { free(piece.expect("memory"), 512) };
    }

    /// So does freeing.
    #[test]
    fn a_held_lock_does_not_delay_what_is_freed_at_once() {
        let pieces = [128, 512, 512].map(|bytes| (allocate(bytes).expect("memory"), bytes));
        let signals = platform::SignalsBlocked::enter();
        let before = lock(&LOCK);
        for (piece, bytes) in pieces {
            // SAFETY: `allocate` returned the piece for this size, and it is not used.
            unsafe { free_at_once(piece, bytes) };
        }
        let is_free = |blocks: &mut Blocks, (piece, bytes): (NonNull<u8>, usize)| {
            let first = blocks.free[size_index(bytes).expect("it is small")];
            // SAFETY: `free` wrote a `Free` to every piece in a list.
            let mut list = std::iter::successors(first, |piece| unsafe { piece.read() }.next);
            list.any(|free| free.cast() == piece)
        };
        // SAFETY: this thread holds the lock and blocks signals.
        let are_free =
            unsafe { with_lock(before, |blocks| pieces.map(|piece| is_free(blocks, piece))) };
        drop(signals);
        assert_eq!(are_free, [true; 3], "a piece is lost");
    }

    #[test]
    fn small_pieces_share_pages() {
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
            // SAFETY: `allocate` returned the piece for 512 bytes, and this is its last use.
            unsafe { free(piece, 512) };
        }
    }
}
