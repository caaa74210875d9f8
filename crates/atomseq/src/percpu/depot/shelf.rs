//! Up to 64 cells. One thread at a time fills or empties each.
//!
//! ```text
//!              claim              publish
//!   free ──────────────> filled ──────────> full
//!     ^                                       │
//!     └────── release ── emptied <── claim ───┘
//! ```
//!
//! 1. A cell's bit is set in at most one of the two words.
//! 2. A thread that has cleared a cell's bit owns the cell until it sets the bit in the other word.
//!
//! There is no ABA problem: the thread that clears a bit owns the cell, whatever state the cell had
//! before. A thread that stops or exits while it owns a cell removes that cell and its batch from
//! use, and no other.

use crate::sync::{AtomicU64, Ordering};

/// The maximum number of cells of a shelf.
pub(crate) const CELLS: usize = 64;

/// The free cells and the full cells, one bit each. Takes two cache lines, because processors
/// prefetch lines in pairs.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Shelf {
    free: AtomicU64,
    full: AtomicU64,
}

impl Shelf {
    /// Creates a shelf of `cells` free cells.
    pub fn new(cells: usize) -> Shelf {
        Shelf {
            free: AtomicU64::new(u64::MAX >> (CELLS - cells)),
            full: AtomicU64::new(0),
        }
    }

    /// Claims a free cell, calls `fill` with its number, and publishes it as full. Returns `false`
    /// if no cell is free.
    pub fn put(&self, fill: impl FnOnce(usize)) -> bool {
        let Some(cell) = claim(&self.free) else {
            return false;
        };
        fill(cell);
        // Release: pairs with the acquire of the claim in `take`, which then sees what `fill`
        // wrote.
        self.full.fetch_or(1 << cell, Ordering::Release);
        true
    }

    /// Claims a full cell, calls `empty` with its number, and frees it. Returns `None` if no cell
    /// is full.
    pub fn take<R>(&self, empty: impl FnOnce(usize) -> R) -> Option<R> {
        let cell = claim(&self.full)?;
        let taken = empty(cell);
        // Release: pairs with the acquire of the claim in `put`. The next owner overwrites the cell
        // only after `empty` has read it.
        self.free.fetch_or(1 << cell, Ordering::Release);
        Some(taken)
    }

    /// Iterates over the cells that are full. The result may be out of date when the call returns.
    pub fn full(&self) -> impl Iterator<Item = usize> + use<> {
        // Relaxed: the result is only a hint.
        let full = self.full.load(Ordering::Relaxed);
        (0..CELLS).filter(move |cell| full & 1 << cell != 0)
    }
}

/// Clears the lowest bit that is set and returns its number: the calling thread then owns the cell.
fn claim(word: &AtomicU64) -> Option<usize> {
    // Relaxed: a hint that leaves an empty shelf in every CPU's cache. The exchange below decides.
    let mut seen = word.load(Ordering::Relaxed);
    while seen != 0 {
        let cell = seen.trailing_zeros();
        // Acquire: pairs with the release by which the cell's last owner set this bit.
        let before = word.fetch_and(!(1 << cell), Ordering::Acquire);
        if before & 1 << cell != 0 {
            return Some(cell as usize);
        }
        // Another thread claimed this cell first: try the next one.
        seen = before;
    }
    None
}
