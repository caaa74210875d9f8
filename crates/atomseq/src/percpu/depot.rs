//! Batches on their way between the CPUs of a pool: a CPU that has too many objects leaves a batch
//! here, and one that has none takes it.
//!
//! ```text
//!   +-------+-------+--   --+------+------+------+--
//!   | shelf | shelf |  …    | cell | cell | cell |  …        up to 64 cells a shelf
//!   +-------+-------+--   --+------+------+------+--
//!                           | len | word | word | …          a cell: a batch
//! ```
//!
//! The magazines of Bonwick and Adams's depot, or tcmalloc's transfer cache, without their lock: a
//! thread that is stopped here keeps one cell, and nothing else, from the others.

use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};

use self::shelf::{CELLS, Shelf};
use super::batch::ElementWord;
use super::error::Error;
use super::memory;
use crate::platform;

mod shelf;

/// The largest batch: with its length it fills four cache lines.
const LARGEST: usize = 31;

/// How many batches there is room for at least, and for each CPU at most: for bursts of some
/// hundred objects.
const FEWEST_BATCHES: usize = 8;
const MAX_BATCHES: usize = 16;

/// A bounded store of batches of words, shared by all CPUs.
///
/// Lock-free: a thread retries only after another has claimed the cell that it wanted. May be used
/// in signal handlers, whatever they interrupt. Nothing allocates after construction.
#[derive(Debug)]
pub(super) struct Depot {
    start: NonNull<u8>,
    bytes: usize,
    shelves: usize,
    cells_per_shelf: usize,
    /// How many words a cell has room for.
    room: usize,
    cpus: usize,
}

// SAFETY: the memory is the depot's own; what its words stand for is up to the pool, which is Sync
// only if objects are Send.
unsafe impl Send for Depot {}
// SAFETY: as above; a cell's words are used only by the thread that has claimed the cell.
unsafe impl Sync for Depot {}

impl Depot {
    /// A depot of about as many words as all CPUs have room for, `capacity` each.
    pub fn try_new(capacity: usize, cpus: usize) -> Result<Depot, Error> {
        let room = (capacity / 2 + 1).min(LARGEST);
        let cells =
            (capacity.saturating_mul(cpus) / room).clamp(FEWEST_BATCHES, MAX_BATCHES * cpus);
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
            // SAFETY: in the memory, which is aligned for shelves, and which nobody else has yet.
            unsafe {
                start
                    .cast::<Shelf>()
                    .add(index)
                    .write(Shelf::new(cells_per_shelf))
            };
        }
        Ok(depot)
    }

    /// How many batches it has room for.
    pub fn cells(&self) -> usize {
        self.shelves * self.cells_per_shelf
    }

    /// The largest batch that it takes.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Puts a batch of words in; `false` if it is larger than a cell, or no cell is free.
    pub fn put(&self, words: &[ElementWord]) -> bool {
        words.len() <= self.room
            && self.nearest().any(|index| {
                let shelf = self.shelf(index);
                // SAFETY: the cell is this thread's while it fills it, and has room for the words.
                shelf.put(|cell| unsafe { self.cell(index, cell).fill(words) })
            })
    }

    /// Takes a batch out, into the beginning of `words`; returns its length, 0 if there is none.
    ///
    /// # Panics
    ///
    /// If `words` has less room than a cell.
    pub fn take(&self, words: &mut [ElementWord]) -> usize {
        assert!(words.len() >= self.room);
        let taken = self.nearest().find_map(|index| {
            let shelf = self.shelf(index);
            // SAFETY: the cell is this thread's while it empties it, and was filled; `words` has
            // room for what it has.
            shelf.take(|cell| unsafe { self.cell(index, cell).empty(words) })
        });
        taken.unwrap_or(0)
    }

    /// How many words there are; already history when it returns.
    pub fn len(&self) -> usize {
        let of_shelf = |index| {
            let full = self.shelf(index).full();
            full.map(move |cell| self.cell(index, cell).len())
                .sum::<usize>()
        };
        (0..self.shelves).map(of_shelf).sum()
    }

    /// The shelves, beginning with that of this CPU, so that CPUs which are far apart seldom meet.
    fn nearest(&self) -> impl Iterator<Item = usize> {
        let first = match self.shelves {
            1 => 0,
            shelves => platform::current_cpu() * shelves / self.cpus % shelves,
        };
        (first..self.shelves).chain(0..first)
    }

    fn shelf(&self, index: usize) -> &Shelf {
        assert!(index < self.shelves);
        // SAFETY: shelves come first; `try_new` has made them, and they are only shared as long as
        // `self`.
        unsafe { self.start.cast::<Shelf>().add(index).as_ref() }
    }

    fn cell(&self, shelf: usize, cell: usize) -> Cell {
        assert!(shelf < self.shelves && cell < self.cells_per_shelf);
        let before = self.shelves * size_of::<Shelf>();
        let offset = before + (shelf * self.cells_per_shelf + cell) * stride(self.room);
        // SAFETY: within the memory, see `try_new`.
        Cell(unsafe { self.start.add(offset) }.cast())
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        // SAFETY: allocated with this size; nobody borrows the depot.
        unsafe { memory::free(self.start, self.bytes) }
    }
}

/// The bytes of a cell: whole cache lines.
fn stride(room: usize) -> usize {
    (size_of::<ElementWord>() * (1 + room)).next_multiple_of(64)
}

/// The length of a batch, and behind it the words.
#[derive(Clone, Copy)]
struct Cell(NonNull<ElementWord>);

impl Cell {
    fn length(&self) -> &AtomicUsize {
        // SAFETY: aligned and in zeroed memory; used as an atomic only.
        unsafe { self.0.cast::<AtomicUsize>().as_ref() }
    }

    fn len(self) -> usize {
        // Relaxed: for the owner it is what the claim has ordered; for others, a number that may be
        // old.
        self.length().load(Ordering::Relaxed)
    }

    /// # Safety
    ///
    /// The cell is this thread's alone, and the words fit.
    unsafe fn fill(self, words: &[ElementWord]) {
        // SAFETY: the caller's promise; the words lie behind the length.
        unsafe {
            self.0
                .add(1)
                .copy_from_nonoverlapping(NonNull::from(words).cast(), words.len())
        };
        // Relaxed: published with the cell.
        self.length().store(words.len(), Ordering::Relaxed);
    }

    /// # Safety
    ///
    /// The cell is this thread's alone, was filled, and `into` has room for its words.
    unsafe fn empty(self, into: &mut [ElementWord]) -> usize {
        let len = self.len();
        // SAFETY: the caller's promise: `fill` has written so many.
        let words = unsafe { slice::from_raw_parts(self.0.add(1).as_ptr(), len) };
        into[..len].copy_from_slice(words);
        len
    }
}

#[cfg(test)]
mod tests;
