//! Up to 64 cells, each of which one thread at a time fills or empties.
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
//! What a cell has been in between does not matter to the thread that clears its bit, so there is
//! no ABA problem. A thread that is stopped, or exits, while it owns a cell takes that cell out of
//! use, with the batch in it, and no other.

use crate::sync::{AtomicU64, Ordering};

/// How many cells a shelf has at most.
pub(crate) const CELLS: usize = 64;

/// Which cells are free, and which are full. Two cache lines, for processors fetch them in pairs.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Shelf {
    free: AtomicU64,
    full: AtomicU64,
}

impl Shelf {
    /// A shelf of so many free cells.
    pub fn new(cells: usize) -> Shelf {
        Shelf {
            free: AtomicU64::new(u64::MAX >> (CELLS - cells)),
            full: AtomicU64::new(0),
        }
    }

    /// Fills a free cell; `false` if there is none.
    pub fn put(&self, fill: impl FnOnce(usize)) -> bool {
        let Some(cell) = claim(&self.free) else {
            return false;
        };
        fill(cell);
        // Release: what was filled in; pairs with the claim in `take`.
        self.full.fetch_or(1 << cell, Ordering::Release);
        true
    }

    /// Empties a full cell, if there is one.
    pub fn take<R>(&self, empty: impl FnOnce(usize) -> R) -> Option<R> {
        let cell = claim(&self.full)?;
        let taken = empty(cell);
        // Release: this thread has read the cell; pairs with the claim in `put`.
        self.free.fetch_or(1 << cell, Ordering::Release);
        Some(taken)
    }

    /// The cells that are full; already history when it returns.
    pub fn full(&self) -> impl Iterator<Item = usize> + use<> {
        // Relaxed: a hint.
        let full = self.full.load(Ordering::Relaxed);
        (0..CELLS).filter(move |cell| full & 1 << cell != 0)
    }
}

/// Clears the lowest bit that is set: the cell is this thread's.
fn claim(word: &AtomicU64) -> Option<usize> {
    // Relaxed: a hint, by which empty shelves stay in every CPU's cache; the exchange decides.
    let mut seen = word.load(Ordering::Relaxed);
    while seen != 0 {
        let cell = seen.trailing_zeros();
        // Acquire: what the cell's last owner did; pairs with the Release by which it set the bit.
        let before = word.fetch_and(!(1 << cell), Ordering::Acquire);
        if before & 1 << cell != 0 {
            return Some(cell as usize);
        }
        // Another thread was faster: this one tries another cell.
        seen = before;
    }
    None
}
