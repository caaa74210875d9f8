//! The buffer: so many slots, each with room for a block, used in a circle. Nothing here knows of
//! threads.

use std::sync::PoisonError;

/// Blocks on their way from the producer to the consumer.
pub struct Buffer {
    bytes: Box<[u8]>,
    /// How long each slot's block is; its number says how many slots there are.
    lengths: Box<[usize]>,
    /// The slot that is taken next.
    first: usize,
    filled: usize,
    /// Nothing more comes in.
    pub ended: bool,
    /// Nothing more is taken out.
    pub abandoned: bool,
}

impl Buffer {
    pub fn new(slots: usize, block: usize) -> Buffer {
        Buffer {
            bytes: vec![0; slots * block].into(),
            lengths: vec![0; slots].into(),
            first: 0,
            filled: 0,
            ended: false,
            abandoned: false,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    pub fn is_full(&self) -> bool {
        self.filled == self.lengths.len()
    }

    fn slot(&mut self, index: usize) -> &mut [u8] {
        let block = self.bytes.len() / self.lengths.len();
        &mut self.bytes[index * block..][..block]
    }

    /// Fills the next slot, which must be free.
    pub fn put(&mut self, block: &[u8]) {
        let index = (self.first + self.filled) % self.lengths.len();
        self.slot(index)[..block.len()].copy_from_slice(block);
        self.lengths[index] = block.len();
        self.filled += 1;
    }

    /// Takes the oldest block, which must be there, and appends it.
    pub fn take(&mut self, to: &mut Vec<u8>) {
        let (index, length) = (self.first, self.lengths[self.first]);
        to.extend_from_slice(&self.slot(index)[..length]);
        self.first = (index + 1) % self.lengths.len();
        self.filled -= 1;
    }
}

/// Where a thread panicked that held the mutex, the other one ends without more words.
pub fn even_if_poisoned<T>(result: Result<T, PoisonError<T>>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}
