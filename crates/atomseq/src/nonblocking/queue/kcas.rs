//! The queue for processors without a double-width compare-and-swap: k-CAS changes a cell and one
//! end at once.

use crate::dcas::{Cells, Mechanism, StableWord, VersionedWords};

/// The queue under k-CAS: words that a version covers. Both ends count the words that went through
/// them.
pub(super) struct Covered {
    object: VersionedWords,
    first: StableWord,
    end: StableWord,
    cells: Cells,
    pub(super) capacity: usize,
}

impl Covered {
    /// Creates a queue of this many cells, a power of two. Returns `None` if there is no memory for
    /// them.
    pub(super) fn new(cells: usize, capacity: usize) -> Option<Covered> {
        let object = VersionedWords::with_mechanism(Mechanism::Kcas);
        Some(Covered {
            cells: Cells::new(cells)?,
            first: StableWord::default(),
            end: StableWord::default(),
            object,
            capacity,
        })
    }

    fn cell(&self, position: u64) -> usize {
        position as usize & (self.cells.len() - 1)
    }

    pub(super) fn len(&self) -> usize {
        let ([first, end], _) = self.object.snapshot([&self.first, &self.end]);
        (end - first) as usize
    }

    /// Pushes a word at the end. Returns `false` if the queue is full.
    pub(super) fn put(&self, word: usize) -> bool {
        loop {
            let version = self.object.begin();
            let [first, end] = [&self.first, &self.end].map(|word| self.object.load(word));
            if end.wrapping_sub(first) as usize == self.capacity {
                if self.object.is_still(version) {
                    return false;
                }
                continue;
            }
            let cell = (&self.cells, self.cell(end), word as u64);
            // SAFETY: the words belong to this queue and are covered by its `object` alone, which
            // was created to use k-CAS.
            if unsafe {
                self.object
                    .put_since_by_kcas(version, cell, (&self.end, end + 1))
            } {
                return true;
            }
        }
    }

    /// Pops the oldest word. Returns `None` if the queue is empty.
    pub(super) fn get(&self) -> Option<usize> {
        loop {
            let version = self.object.begin();
            let [first, end] = [&self.first, &self.end].map(|word| self.object.load(word));
            if first == end {
                if self.object.is_still(version) {
                    return None;
                }
                continue;
            }
            let word = self.cells.load(&self.object, self.cell(first));
            let next = (&self.first, first + 1);
            // SAFETY: the word belongs to this queue and is covered by its `object` alone, which
            // was created to use k-CAS.
            if unsafe { self.object.store_if_by_kcas(version, next) } {
                return Some(word as usize);
            }
        }
    }
}
