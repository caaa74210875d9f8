//! Where areas, and chunks of queues and pools, get their memory: the operating system, and for small ones a page they share.
//!
//! A counter on a machine with few CPUs takes a few hundred bytes. A page of its own would cost a
//! program with a thousand counters megabytes, and an entry of the address cache each. So small areas
//! are cut from blocks; freed, they wait by size for the next one. Blocks are kept for good. Nothing
//! here touches the global allocator, for an allocator may be built on an area.
//!
//! A process at its limit of mappings cannot give every mapping back. Those that the system refuses are kept: without the memory behind
//! them, but for a page, until one of their size is wanted, or the system takes them.

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::area::SLOT_BYTES;
use super::lock::{is_abandoned, lock, unlock};
use crate::platform;

/// Areas up to this size are cut from blocks.
const SMALL: usize = 2048;

/// The size of a block.
const BLOCK: usize = 1 << 16;

/// Small sizes, each a multiple of a slot's.
const SIZES: usize = SMALL / SLOT_BYTES;

/// Zeroed memory, aligned to a slot's size; a whole mapping if it is large.
pub(crate) fn allocate(bytes: usize) -> Option<NonNull<u8>> {
    match size_index(bytes) {
        None if keeps() => {
            with_blocks(|blocks| blocks.take_kept(bytes)).or_else(|| platform::map(bytes))
        }
        None => platform::map(bytes),
        Some(index) => with_blocks(|blocks| blocks.allocate(index)),
    }
}

/// Gives memory back.
///
/// # Safety
///
/// `allocate` gave it for this size, and nobody uses it any more.
pub(crate) unsafe fn free(start: NonNull<u8>, bytes: usize) {
    match size_index(bytes) {
        // SAFETY: the caller's promise: a mapping of this size.
        None => unsafe {
            if !platform::unmap(start, bytes) {
                with_blocks(|blocks| blocks.keep(start, bytes));
            } else if keeps() {
                // There may be room for others too.
                with_blocks(|blocks| blocks.unmap_kept());
            }
        },
        // SAFETY: the caller's promise: a piece of this size.
        Some(index) => with_blocks(|blocks| unsafe { blocks.free(start, index) }),
    }
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

/// A mapping that the system would not take back: what its first page says.
struct Kept {
    next: Option<NonNull<Kept>>,
    bytes: usize,
    /// Is all behind this zero?
    is_discarded: bool,
}

/// How many kept mappings one call looks at.
const LOOKS: usize = 4;

/// How many mappings are kept, to know without the lock when there are none.
static KEPT: AtomicUsize = AtomicUsize::new(0);

fn keeps() -> bool {
    // Relaxed: a hint.
    KEPT.load(Ordering::Relaxed) > 0
}

struct Blocks {
    kept: Option<NonNull<Kept>>,
    free: [Option<NonNull<Free>>; SIZES],
    /// What is left of the newest block.
    rest: Option<NonNull<u8>>,
    rest_bytes: usize,
}

impl Blocks {
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
            let block = platform::map(BLOCK)?;
            if let Some(rest) = self.rest.filter(|_| self.rest_bytes > 0) {
                // SAFETY: the end of the old block, which nobody uses.
                unsafe { self.free(rest, self.rest_bytes / SLOT_BYTES - 1) };
            }
            (self.rest, self.rest_bytes) = (Some(block), BLOCK);
        }
        let piece = self.rest?;
        self.rest_bytes -= bytes;
        // SAFETY: there were `bytes` bytes left; past the last of them is still the block's end.
        self.rest = Some(unsafe { piece.add(bytes) });
        Some(piece)
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

impl Blocks {
    /// # Safety
    ///
    /// A mapping of this size that nobody uses.
    unsafe fn keep(&mut self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise; a page has room for the words, and is aligned for them.
        unsafe {
            let is_discarded = platform::discard(start, bytes);
            start.cast::<Kept>().write(Kept {
                next: self.kept,
                bytes,
                is_discarded,
            });
        }
        self.kept = Some(start.cast());
        KEPT.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a mapping of this size, zeroed, if the newest ones include one.
    fn take_kept(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let mut place = &mut self.kept;
        for _ in 0..LOOKS {
            let mut mapping = *place.as_ref()?;
            // SAFETY: kept mappings hold these words, and are reached under the lock only.
            let kept = unsafe { mapping.as_mut() };
            if kept.bytes != bytes {
                place = &mut kept.next;
                continue;
            }
            *place = kept.next;
            KEPT.fetch_sub(1, Ordering::Relaxed);
            let dirty = match kept.is_discarded {
                true => size_of::<Kept>(),
                false => bytes,
            };
            // SAFETY: within the mapping, which is not on the list any more.
            unsafe { mapping.cast::<u8>().write_bytes(0, dirty) };
            return Some(mapping.cast());
        }
        None
    }

    /// Offers the newest ones to the system again, until it refuses one.
    fn unmap_kept(&mut self) {
        for _ in 0..LOOKS {
            let Some(mapping) = self.kept else {
                return;
            };
            // SAFETY: kept mappings hold these words.
            let Kept { next, bytes, .. } = unsafe { mapping.read() };
            // SAFETY: a mapping of this size that nobody uses. Refused, it stays as it is.
            if !unsafe { platform::unmap(mapping.cast(), bytes) } {
                return;
            }
            self.kept = next;
            KEPT.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

static LOCK: AtomicU32 = AtomicU32::new(0);
static BLOCKS: Shared = Shared(UnsafeCell::new(NO_BLOCKS));

const NO_BLOCKS: Blocks = Blocks {
    kept: None,
    free: [None; SIZES],
    rest: None,
    rest_bytes: 0,
};

struct Shared(UnsafeCell<Blocks>);
// SAFETY: only touched under LOCK.
unsafe impl Sync for Shared {}

/// Works on the blocks alone: no signal handler on this thread and no fork meanwhile.
fn with_blocks<R>(work: impl FnOnce(&mut Blocks) -> R) -> R {
    let _quiet = platform::Quiet::enter();
    let before = lock(&LOCK);
    // SAFETY: this thread holds the lock, and `work` neither comes back here nor panics.
    let blocks = unsafe { &mut *BLOCKS.0.get() };
    if is_abandoned(before) {
        // In a child, what another thread of the parent has left half done.
        *blocks = NO_BLOCKS;
        KEPT.store(0, Ordering::Relaxed);
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
    fn what_is_kept_is_taken_again_zeroed_or_unmapped() {
        let sizes = [8192, 20_000, 8192, 40_000];
        let mut blocks = NO_BLOCKS;
        for is_discarded in [true, false] {
            let kept = sizes.map(|bytes| {
                let start = platform::map(bytes).unwrap();
                // SAFETY: just mapped, and nobody else's.
                unsafe {
                    start.write_bytes(7, bytes);
                    blocks.keep(start, bytes);
                    if !is_discarded {
                        // As where the program has locked memory.
                        let mut kept = start.cast::<Kept>();
                        kept.as_mut().is_discarded = false;
                        start
                            .add(size_of::<Kept>())
                            .write_bytes(7, bytes - size_of::<Kept>());
                    }
                }
                start
            });
            assert_eq!(blocks.take_kept(8193), None);
            for (index, bytes) in [(2, 8192), (1, 20_000), (0, 8192)] {
                let taken = blocks.take_kept(bytes);
                assert_eq!(taken, Some(kept[index]));
                // SAFETY: taken, and so this test's.
                let words = unsafe { std::slice::from_raw_parts(kept[index].as_ptr(), bytes) };
                assert!(words.iter().all(|byte| *byte == 0));
                // SAFETY: as above.
                assert!(unsafe { platform::unmap(kept[index], bytes) });
            }
            assert_eq!(blocks.take_kept(8192), None);
            blocks.unmap_kept();
            assert_eq!(blocks.kept, None);
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
