//! A few words that a thread and its handlers change, for scenarios.

use std::cell::Cell;

/// Words at fixed places.
#[derive(Debug)]
pub struct Memory<const WORDS: usize>([Cell<usize>; WORDS]);

impl<const WORDS: usize> Memory<WORDS> {
    /// With these contents.
    pub fn holding(words: [usize; WORDS]) -> Memory<WORDS> {
        Memory(words.map(Cell::new))
    }

    /// Where a word is.
    pub fn at(&self, index: usize) -> usize {
        self.0[index].as_ptr() as usize
    }

    /// What a word holds.
    pub fn word(&self, index: usize) -> usize {
        self.0[index].get()
    }

    /// Changes a word.
    pub fn set(&self, index: usize, word: usize) {
        self.0[index].set(word);
    }

    /// Everything.
    pub fn words(&self) -> Vec<u64> {
        self.0.iter().map(|word| word.get() as u64).collect()
    }
}
