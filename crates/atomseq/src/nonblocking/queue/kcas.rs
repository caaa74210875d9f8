//! The queue where the processor compares no two words at once: by k-CAS, a cell and one end change
//! together.

use crate::dcas::{Cells, Mechanism, StableWord, VersionedWords};

/// The queue by k-CAS: words that a version covers. Both ends are counts of what went through them.
pub(super) struct Covered {
    object: VersionedWords,
    first: StableWord,
    end: StableWord,
    cells: Cells,
    pub(super) capacity: usize,
}

impl Covered {
    /// `None` if there is no memory for so many cells.
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

    /// Puts a word at the end; `false`: the queue is full.
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
            // SAFETY: the words are this queue's, and its object, which uses k-CAS, alone covers
            // them.
            if unsafe {
                self.object
                    .put_since_by_kcas(version, cell, (&self.end, end + 1))
            } {
                return true;
            }
        }
    }

    /// Takes the first word; `None`: the queue is empty.
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
            // SAFETY: as in `put`.
            if unsafe { self.object.store_if_by_kcas(version, next) } {
                return Some(word as usize);
            }
        }
    }
}
