//! A bounded store of batches that the CPUs of a pool share. A CPU with too many objects puts a
//! batch here; a CPU with none takes one.
//!
//! ```text
//!   +-------+-------+--   --+------+------+------+--
//!   | shelf | shelf |  …    | cell | cell | cell |  …        up to 64 cells per shelf
//!   +-------+-------+--   --+------+------+------+--
//!                           | len | word | word | …          a cell: a batch
//! ```
//!
//! This is the depot of magazines of Bonwick and Adams, or tcmalloc's transfer cache, without its
//! lock: a thread that is stopped here withholds one cell from the others, and nothing else.

use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};

use self::shelf::{CELLS, Shelf};
use super::batch::ElementWord;
use super::error::Error;
use super::memory;
use crate::platform;

mod shelf;

/// The largest batch, in words. With its length it fills four cache lines.
const LARGEST: usize = 31;

/// The minimum number of batches in all, and the maximum number per CPU. This absorbs bursts of a
/// few hundred objects.
const MIN_BATCHES: usize = 8;
const MAX_BATCHES: usize = 16;

/// A bounded store of batches of words, shared by all CPUs.
///
/// Lock-free: a thread retries only after another thread has claimed the cell it tried. Every
/// operation may be called in a signal handler, whatever code it interrupts. Nothing allocates
/// after construction.
#[derive(Debug)]
pub(super) struct Depot {
    start: NonNull<u8>,
    bytes: usize,
    shelves: usize,
    cells_per_shelf: usize,
    /// The capacity of a cell, in words.
    room: usize,
    cpus: usize,
}

// SAFETY: the depot owns its memory, which is not tied to a thread. A pool is `Send` or `Sync` only
// if its objects are `Send`, so the words may change threads.
unsafe impl Send for Depot {}
// SAFETY: shelves are atomic, and only the thread that has claimed a cell accesses its words.
unsafe impl Sync for Depot {}

impl Depot {
    /// Creates a depot for about `capacity` words per CPU.
    pub fn try_new(capacity: usize, cpus: usize) -> Result<Depot, Error> {
        let room = (capacity / 2 + 1).min(LARGEST);
        let cells = (capacity.saturating_mul(cpus) / room).clamp(MIN_BATCHES, MAX_BATCHES * cpus);
        let shelves = cells.div_ceil(CELLS);
        let cells_per_shelf = cells / shelves;
        let bytes = shelves * (size_of::<Shelf>() + cells_per_shelf * stride(room));
        let start = memory::allocate(bytes).ok_or(Error::OutOfMemory)?;
        let depot = Depot {
            start,
            bytes,
            shelves,
            cells_per_shelf,
            room,
            cpus,
        };
        for index in 0..shelves {
            // SAFETY: `start` has room for `shelves` shelves and is aligned for them. No other
            // thread can reach the memory yet.
            unsafe {
                start
                    .cast::<Shelf>()
                    .add(index)
                    .write(Shelf::new(cells_per_shelf))
            };
        }
        Ok(depot)
    }

    /// Returns the maximum number of batches.
    pub fn cells(&self) -> usize {
        self.shelves * self.cells_per_shelf
    }

    /// Returns the maximum size of a batch, in words.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Stores a batch of words. Returns `false` if the batch is larger than a cell, or if no cell
    /// is free.
    pub fn put(&self, words: &[ElementWord]) -> bool {
        words.len() <= self.room
            && self.nearest().any(|index| {
                let shelf = self.shelf(index);
                // SAFETY: `Shelf::put` calls this only for a cell that this thread has claimed, and
                // the words fit: their number was compared with `room`.
                shelf.put(|cell| unsafe { self.cell(index, cell).fill(words) })
            })
    }

    /// Removes a batch, copies it to the start of `words`, and returns its length; 0 if there is no
    /// batch.
    ///
    /// # Panics
    ///
    /// If `words` is shorter than a cell.
    #[track_caller]
    pub fn take(&self, words: &mut [ElementWord]) -> usize {
        assert!(words.len() >= self.room);
        let taken = self.nearest().find_map(|index| {
            let shelf = self.shelf(index);
            // SAFETY: `Shelf::take` calls this only for a full cell that this thread has claimed.
            // `words` is at least as long as a cell.
            shelf.take(|cell| unsafe { self.cell(index, cell).empty(words) })
        });
        taken.unwrap_or(0)
    }

    /// Returns the number of words stored. The result may be out of date when the call returns.
    pub fn len(&self) -> usize {
        let of_shelf = |index| {
            let full = self.shelf(index).full();
            full.map(move |cell| self.cell(index, cell).len())
                .sum::<usize>()
        };
        (0..self.shelves).map(of_shelf).sum()
    }

    /// Iterates over the shelves, starting with the one for this CPU. CPUs with distant numbers
    /// thus rarely contend for a shelf.
    fn nearest(&self) -> impl Iterator<Item = usize> {
        let first = match self.shelves {
            1 => 0,
            shelves => platform::current_cpu() * shelves / self.cpus % shelves,
        };
        (first..self.shelves).chain(0..first)
    }

    fn shelf(&self, index: usize) -> &Shelf {
        assert!(index < self.shelves);
        // SAFETY: the shelves are at the start of the memory. `try_new` has initialized them, and
        // until `self` is dropped they are accessed by shared reference only.
        unsafe { self.start.cast::<Shelf>().add(index).as_ref() }
    }

    fn cell(&self, shelf: usize, cell: usize) -> Cell {
        assert!(shelf < self.shelves && cell < self.cells_per_shelf);
        let before = self.shelves * size_of::<Shelf>();
        let offset = before + (shelf * self.cells_per_shelf + cell) * stride(self.room);
        // SAFETY: the assertion keeps the offset within the `bytes` that `try_new` allocated.
        Cell(unsafe { self.start.add(offset) }.cast())
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        // SAFETY: `memory::allocate` returned this start for `bytes` bytes, and no borrow of the
        // depot is left.
        unsafe { memory::free(self.start, self.bytes) }
    }
}

/// The distance in bytes between cells: whole cache lines.
fn stride(room: usize) -> usize {
    (size_of::<ElementWord>() * (1 + room)).next_multiple_of(64)
}

/// A cell: the length of a batch, followed by its words.
#[derive(Clone, Copy)]
struct Cell(NonNull<ElementWord>);

impl Cell {
    fn length(&self) -> &AtomicUsize {
        // SAFETY: the cell is aligned and zero-initialized, and its first place is only accessed
        // atomically.
        unsafe { self.0.cast::<AtomicUsize>().as_ref() }
    }

    fn len(self) -> usize {
        // Relaxed: for the owner, the claim's acquire has ordered this load. Other threads use the
        // value only for `len`, which may be out of date.
        self.length().load(Ordering::Relaxed)
    }

    /// Copies a batch into the cell.
    ///
    /// # Safety
    ///
    /// The calling thread owns the cell, and the words fit.
    unsafe fn fill(self, words: &[ElementWord]) {
        // SAFETY: the caller owns the cell and guarantees that the words fit behind its length.
        unsafe {
            self.0
                .add(1)
                .copy_from_nonoverlapping(NonNull::from(words).cast(), words.len())
        };
        // Relaxed: the release that publishes the cell orders this store.
        self.length().store(words.len(), Ordering::Relaxed);
    }

    /// Copies the batch out to the start of `into`, and returns its length.
    ///
    /// # Safety
    ///
    /// The calling thread owns the cell, the cell was filled, and `into` has room for its words.
    unsafe fn empty(self, into: &mut [ElementWord]) -> usize {
        let len = self.len();
        // SAFETY: the caller owns the cell, where `fill` has written `len` words behind the length.
        let words = unsafe { slice::from_raw_parts(self.0.add(1).as_ptr(), len) };
        into[..len].copy_from_slice(words);
        len
    }
}

#[cfg(test)]
mod tests;
