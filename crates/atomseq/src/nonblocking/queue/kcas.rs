//! The queue for processors without a double-width compare-and-swap: k-CAS changes a cell and one
//! end at once.

use crate::dcas::{Cells, StableWord, VersionedWords};

/// The queue under k-CAS: words that a version covers. `first` counts pops, and `end` counts
/// pushes.
pub(super) struct Covered {
    versioned: VersionedWords,
    first: StableWord,
    end: StableWord,
    cells: Cells,
    pub(super) capacity: usize,
}

impl Covered {
    /// Creates a queue of this many cells, a power of two. Returns `None` if there is no memory for
    /// them.
    pub(super) fn new(cells: usize, capacity: usize) -> Option<Covered> {
        let versioned = VersionedWords::with_kcas();
        Some(Covered {
            cells: Cells::new(cells)?,
            first: StableWord::default(),
            end: StableWord::default(),
            versioned,
            capacity,
        })
    }

    fn cell(&self, position: u64) -> usize {
        position as usize & (self.cells.len() - 1)
    }

    pub(super) fn len(&self) -> usize {
        let ([first, end], _) = self.versioned.snapshot([&self.first, &self.end]);
        (end - first) as usize
    }

    /// Pushes a word at the end. Returns `false` if the queue is full.
    pub(super) fn put(&self, word: usize) -> bool {
        loop {
            let version = self.versioned.begin();
            let [first, end] = [&self.first, &self.end].map(|word| self.versioned.load(word));
            if end.wrapping_sub(first) as usize == self.capacity {
                if self.versioned.is_still(version) {
                    return false;
                }
                continue;
            }
            let cell = (&self.cells, self.cell(end), word as u64);
            // SAFETY: the words belong to this queue and are covered by its `versioned` alone,
            // which was created to use k-CAS.
            if unsafe {
                self.versioned
                    .store_cell_if_by_kcas(version, cell, (&self.end, end + 1))
            } {
                return true;
            }
            self.versioned.back_off();
        }
    }

    /// Pops the oldest word. Returns `None` if the queue is empty.
    pub(super) fn get(&self) -> Option<usize> {
        loop {
            let version = self.versioned.begin();
            let [first, end] = [&self.first, &self.end].map(|word| self.versioned.load(word));
            if first == end {
                if self.versioned.is_still(version) {
                    return None;
                }
                continue;
            }
            let word = self.cells.load(&self.versioned, self.cell(first));
            let next = (&self.first, first + 1);
            // SAFETY: the word belongs to this queue and is covered by its `versioned` alone, which
            // was created to use k-CAS.
            if unsafe { self.versioned.store_if_by_kcas(version, next) } {
                return Some(word as usize);
            }
            self.versioned.back_off();
        }
    }
}
