//! The buffer: a circle of slots, each with room for one block. It does no synchronisation.

use std::sync::PoisonError;

/// The blocks between producer and consumer.
pub struct Buffer {
    bytes: Box<[u8]>,
    /// The length of the block in each slot.
    lengths: Box<[usize]>,
    /// The slot of the oldest block.
    first: usize,
    filled: usize,
    /// Whether the producer has finished.
    pub ended: bool,
    /// Whether the consumer has finished.
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

    /// Fills the next slot. The buffer must not be full.
    pub fn put(&mut self, block: &[u8]) {
        let index = (self.first + self.filled) % self.lengths.len();
        self.slot(index)[..block.len()].copy_from_slice(block);
        self.lengths[index] = block.len();
        self.filled += 1;
    }

    /// Appends the oldest block to `to`, and frees its slot. The buffer must not be empty.
    pub fn take(&mut self, to: &mut Vec<u8>) {
        let (index, length) = (self.first, self.lengths[self.first]);
        to.extend_from_slice(&self.slot(index)[..length]);
        self.first = (index + 1) % self.lengths.len();
        self.filled -= 1;
    }
}

/// Ignores poisoning: after a panic of one thread, the other one only has to finish.
pub fn even_if_poisoned<T>(result: Result<T, PoisonError<T>>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}
