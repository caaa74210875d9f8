//! M94's programs by any mechanism, on a thread's own memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;

use super::Program;
use super::mechanisms::{Mechanism, Stores};
use super::sequences::plain;

/// A word's address, for sequences.
fn address(word: &AtomicUsize) -> usize {
    word.as_ptr().expose_provenance()
}

/// A node: its link and its value.
#[repr(C)]
#[derive(Default)]
struct Node {
    link: AtomicUsize,
    value: AtomicUsize,
}

/// A queue's two words.
#[repr(C)]
#[derive(Default)]
struct Ends {
    first: AtomicUsize,
    last: AtomicUsize,
}

/// An empty sequence.
#[derive(Default)]
pub struct Null<M> {
    word: AtomicUsize,
    mechanism: M,
}

impl<M: Mechanism> Program for Null<M> {
    #[inline(never)]
    fn run(&self, times: u64) -> u64 {
        let word = address(&self.word);
        let mut right = 0;
        for value in 0..times {
            // SAFETY: the word lives as long as `self`, and it is this thread's.
            unsafe { self.mechanism.null(word, value as usize) };
            right += 1;
        }
        match self.word.load(Ordering::Relaxed) as u64 == times - 1 {
            true => right,
            false => 0,
        }
    }

    fn is_whole(&self) -> bool {
        true
    }
}

/// A push and a pop on a stack in which one node lies from the start.
#[derive(Default)]
pub struct Lifo<M> {
    first: CachePadded<AtomicUsize>,
    nodes: [CachePadded<Node>; 2],
    mechanism: M,
}

impl<M: Mechanism> Program for Lifo<M> {
    fn prepare(&self) {
        // SAFETY: both live as long as `self`, and no other thread knows them.
        unsafe { plain::push(address(&self.first), address(&self.nodes[0].link)) };
    }

    #[inline(never)]
    fn run(&self, times: u64) -> u64 {
        let (stack, node) = (address(&self.first), address(&self.nodes[1].link));
        let mut right = 0;
        for _ in 0..times {
            // SAFETY: they live as long as `self` and are this thread's; the node is off the stack
            // again each time.
            unsafe {
                self.mechanism.push(stack, node);
                right += u64::from(self.mechanism.pop(stack) == Some(node));
            }
        }
        right
    }

    fn is_whole(&self) -> bool {
        let [laid, _] = &self.nodes;
        self.first.load(Ordering::Relaxed) == address(&laid.link)
            && laid.link.load(Ordering::Relaxed) == 0
    }
}

/// An enqueue in an empty queue and a dequeue, with one visible store each.
#[derive(Default)]
pub struct Fifo<M> {
    ends: CachePadded<Ends>,
    nodes: [CachePadded<Node>; 2],
    mechanism: M,
}

impl<M: Mechanism> Program for Fifo<M> {
    fn prepare(&self) {
        let spare = address(&self.nodes[0].link);
        self.ends.first.store(spare, Ordering::Relaxed);
        self.ends.last.store(spare, Ordering::Relaxed);
    }

    #[inline(never)]
    fn run(&self, times: u64) -> u64 {
        let queue = address(&self.ends.first);
        let [one, two] = [0, 1].map(|node: usize| address(&self.nodes[node].link));
        // The two take turns in being the one to spare.
        let mut node = if self.ends.first.load(Ordering::Relaxed) == one {
            two
        } else {
            one
        };
        let mut right = 0;
        for value in 0..times as usize {
            // SAFETY: they live as long as `self` and are this thread's; `node` is the one that is
            // not in the queue.
            unsafe {
                self.mechanism.enqueue(queue, node, value);
                if let Some((empty, out)) = self.mechanism.dequeue(queue) {
                    node = empty;
                    right += u64::from(out == value);
                }
            }
        }
        right
    }

    fn is_whole(&self) -> bool {
        self.ends.first.load(Ordering::Relaxed) == self.ends.last.load(Ordering::Relaxed)
    }
}

/// An enqueue in an empty queue and a dequeue, with several visible stores each.
#[derive(Default)]
pub struct FifoStores<M> {
    ends: CachePadded<Ends>,
    node: CachePadded<Node>,
    mechanism: M,
}

impl<M: Stores> Program for FifoStores<M> {
    fn prepare(&self) {
        self.ends
            .last
            .store(address(&self.ends.first), Ordering::Relaxed);
    }

    #[inline(never)]
    fn run(&self, times: u64) -> u64 {
        let (queue, node) = (address(&self.ends.first), address(&self.node.link));
        let mut right = 0;
        for _ in 0..times {
            // SAFETY: they live as long as `self` and are this thread's; the node is out of the
            // queue again each time.
            unsafe {
                self.mechanism.append(queue, node);
                right += u64::from(self.mechanism.remove(queue) == Some(node));
            }
        }
        right
    }

    fn is_whole(&self) -> bool {
        self.ends.first.load(Ordering::Relaxed) == 0
            && self.ends.last.load(Ordering::Relaxed) == address(&self.ends.first)
    }
}
