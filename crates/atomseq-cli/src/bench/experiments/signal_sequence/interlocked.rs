//! M94's programs by interlocked instructions.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::Program;
use crate::bench::peers::tagged::{TaggedQueue, TaggedStack};

/// NULL: one interlocked instruction. A plain store would suffice, as for every other subject.
#[derive(Default)]
pub struct TaggedNull(AtomicUsize);

impl Program for TaggedNull {
    #[inline(never)]
    fn run(&self, times: u64) -> u64 {
        // Relaxed: nothing follows from it.
        let mut last = self.0.load(Ordering::Relaxed);
        let mut right = 0;
        for value in 0..times as usize {
            right += u64::from(self.0.swap(value, Ordering::Relaxed) == last);
            last = value;
        }
        right
    }

    fn is_whole(&self) -> bool {
        true
    }
}

/// LIFO on a stack in which one node lies from the start.
pub struct TaggedLifo(TaggedStack);

impl Default for TaggedLifo {
    fn default() -> Self {
        Self(TaggedStack::new(2))
    }
}

impl Program for TaggedLifo {
    fn prepare(&self) {
        self.0.push(0);
    }

    #[inline(never)]
    fn run(&self, times: u64) -> u64 {
        let mut right = 0;
        for _ in 0..times {
            self.0.push(1);
            right += u64::from(self.0.pop() == Some(1));
        }
        right
    }

    fn is_whole(&self) -> bool {
        self.0.pop() == Some(0) && self.0.pop().is_none()
    }
}

/// FIFO on an empty queue.
pub struct TaggedFifo {
    queue: TaggedQueue,
    /// The node that is not in the queue.
    node: AtomicU32,
}

impl Default for TaggedFifo {
    fn default() -> Self {
        Self {
            queue: TaggedQueue::new(2),
            node: AtomicU32::new(1),
        }
    }
}

impl Program for TaggedFifo {
    #[inline(never)]
    fn run(&self, times: u64) -> u64 {
        // Relaxed: the program is one thread's.
        let mut node = self.node.load(Ordering::Relaxed);
        let mut right = 0;
        for value in 0..times {
            self.queue.enqueue(node, value);
            if let Some((empty, out)) = self.queue.dequeue() {
                node = empty;
                right += u64::from(out == value);
            }
        }
        self.node.store(node, Ordering::Relaxed);
        right
    }

    fn is_whole(&self) -> bool {
        self.queue.dequeue().is_none()
    }
}
