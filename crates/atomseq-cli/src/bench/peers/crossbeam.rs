//! crossbeam-queue: `ArrayQueue`, its fastest shared container, as the bag beside the stack, as the
//! ring and under the pool; `SegQueue`, its unbounded queue, beside the queues; `SkipMap` beside
//! the list.

use crossbeam_queue::{ArrayQueue, SegQueue};
use crossbeam_skiplist::SkipMap;

use crate::bench::workloads::borrowing::Blocks;
use crate::bench::workloads::ordered::Ordered;
use crate::bench::workloads::push_and_pop;
use crate::bench::workloads::relay::{BURST, Channel, each_received, each_sent};

push_and_pop!(Container for ArrayQueue<u64>: Self::push, Self::pop);

push_and_pop!(Conveyor for ArrayQueue<u64>: Self::push, Self::pop);

push_and_pop!(Container for SegQueue<u64>: pushed, Self::pop);

push_and_pop!(Conveyor for SegQueue<u64>: pushed, Self::pop);

#[inline(always)]
fn pushed(queue: &SegQueue<u64>, element: u64) -> Result<(), u64> {
    queue.push(element);
    Ok(())
}

impl Ordered for SkipMap<u64, u64> {
    #[inline(always)]
    fn insert(&self, key: u64, value: u64) -> bool {
        Self::insert(self, key, value);
        true
    }

    #[inline(always)]
    fn remove(&self, key: u64) -> Option<u64> {
        self.remove(&key).map(|entry| *entry.value())
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.get(&key).map(|entry| *entry.value())
    }
}

impl Channel for ArrayQueue<u64> {
    #[inline(always)]
    fn send(&self, elements: &[u64; BURST]) -> usize {
        each_sent(elements, |element| Self::push(self, element).is_ok())
    }

    #[inline(always)]
    fn receive(&self, elements: &mut [u64]) -> usize {
        each_received(elements, || Self::pop(self))
    }
}

/// Idle blocks in a shared queue; when it is empty a block is allocated, when it is full one is
/// freed.
pub struct QueuedBlocks(ArrayQueue<Box<[u64; 8]>>);

impl QueuedBlocks {
    /// A pool of up to `capacity` idle blocks, half full.
    pub fn new(capacity: usize) -> Self {
        let idle = ArrayQueue::new(capacity);
        for _ in 0..capacity / 2 {
            // Cannot fail: it is at most half full.
            let _ = idle.push(Box::new([0; 8]));
        }
        Self(idle)
    }
}

impl Blocks for QueuedBlocks {
    type Block = Box<[u64; 8]>;

    #[inline(always)]
    fn get(&self) -> Self::Block {
        self.0.pop().unwrap_or_else(|| Box::new([0; 8]))
    }

    #[inline(always)]
    fn put(&self, block: Self::Block) {
        // A block that does not fit comes back in the error and is freed with it.
        drop(self.0.push(block));
    }
}
