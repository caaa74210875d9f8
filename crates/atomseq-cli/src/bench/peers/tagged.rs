//! A stack and a queue by interlocked instruction that recycle their nodes, as a thread and its
//! handlers would share them without atomseq: links are node numbers with a tag in the same 64 bits
//! against the ABA problem, which is cheaper than a double-width compare-and-swap. The stack is
//! Treiber's, the queue Michael and Scott's.
//!
//! Only a handler on the same thread interferes, so there is no contention and no backoff. The
//! instructions are those that contending CPUs would need as well: Rust has no others, and so have
//! programs.

use std::sync::atomic::{AtomicU64, Ordering};

// Relaxed where nothing follows from what is read; the others name their partners. On one thread
// all orderings are alike; on x86-64 they cost the same as well.

/// The number of no node.
pub const NONE: u32 = u32::MAX;

/// A node's number and how many times the word that holds it has changed.
type Tagged = u64;

#[inline(always)]
const fn tagged(node: u32, tag: u32) -> Tagged {
    (tag as u64) << 32 | node as u64
}

#[inline(always)]
const fn node_of(word: Tagged) -> u32 {
    word as u32
}

/// The word that replaces another one: that node and the next tag.
#[inline(always)]
const fn after(word: Tagged, node: u32) -> Tagged {
    tagged(node, ((word >> 32) as u32).wrapping_add(1))
}

/// A stack of nodes.
pub struct TaggedStack {
    head: AtomicU64,
    next: Box<[AtomicU64]>,
}

impl TaggedStack {
    /// An empty stack for the nodes `0..nodes`.
    pub fn new(nodes: u32) -> Self {
        Self {
            head: AtomicU64::new(tagged(NONE, 0)),
            next: (0..nodes).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Puts a node on top.
    #[inline(always)]
    pub fn push(&self, node: u32) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            self.next[node as usize].store(u64::from(node_of(head)), Ordering::Relaxed);
            let new = after(head, node);
            // Release: pairs with the Acquire of the pop that reads the node's link.
            match (self.head).compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes the top node.
    #[inline(always)]
    pub fn pop(&self) -> Option<u32> {
        // Acquire, here and on failure: pairs with the Release of the push.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let first = node_of(head);
            if first == NONE {
                return None;
            }
            let next = self.next[first as usize].load(Ordering::Relaxed);
            let new = after(head, next as u32);
            match (self.head).compare_exchange_weak(head, new, Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => return Some(first),
                Err(now) => head = now,
            }
        }
    }
}

/// A queue of values in nodes; the first node is the one that was emptied last.
pub struct TaggedQueue {
    first: AtomicU64,
    last: AtomicU64,
    nodes: Box<[Node]>,
}

#[derive(Default)]
struct Node {
    next: AtomicU64,
    value: AtomicU64,
}

impl TaggedQueue {
    /// An empty queue for the nodes `0..nodes`, of which it keeps number 0.
    pub fn new(nodes: u32) -> Self {
        let nodes: Box<[Node]> = (0..nodes).map(|_| Node::default()).collect();
        nodes[0].next.store(tagged(NONE, 0), Ordering::Relaxed);
        Self {
            first: AtomicU64::new(0),
            last: AtomicU64::new(0),
            nodes,
        }
    }

    /// Puts a value last, in a node that is the caller's.
    #[inline(always)]
    pub fn enqueue(&self, node: u32, value: u64) {
        let own = &self.nodes[node as usize];
        own.value.store(value, Ordering::Relaxed);
        own.next.store(
            after(own.next.load(Ordering::Relaxed), NONE),
            Ordering::Relaxed,
        );
        loop {
            // Acquire, all three: pair with the Releases of `enqueue` and `advance`.
            let last = self.last.load(Ordering::Acquire);
            let link = &self.nodes[node_of(last) as usize].next;
            let next = link.load(Ordering::Acquire);
            if self.last.load(Ordering::Acquire) != last {
                // That link may be a recycled node's.
                continue;
            }
            if node_of(next) != NONE {
                // The thread that linked that node was interrupted before it advanced `last`.
                self.advance(last, node_of(next));
                continue;
            }
            let new = after(next, node);
            // Release: pairs with the Acquire of a thread that follows the link.
            if (link.compare_exchange(next, new, Ordering::Release, Ordering::Relaxed)).is_ok() {
                self.advance(last, node);
                return;
            }
        }
    }

    /// Takes the first value, and the node that is free in its place.
    #[inline(always)]
    pub fn dequeue(&self) -> Option<(u32, u64)> {
        loop {
            // Acquire, all four: pair with the Releases of `enqueue` and `advance`.
            let first = self.first.load(Ordering::Acquire);
            let last = self.last.load(Ordering::Acquire);
            let next = self.nodes[node_of(first) as usize]
                .next
                .load(Ordering::Acquire);
            let next = node_of(next);
            if self.first.load(Ordering::Acquire) != first {
                continue;
            }
            if node_of(first) == node_of(last) {
                if next == NONE {
                    return None;
                }
                self.advance(last, next);
                continue;
            }
            let value = self.nodes[next as usize].value.load(Ordering::Relaxed);
            let new = after(first, next);
            // Release: pairs with the Acquire of the next dequeue.
            let taken =
                (self.first).compare_exchange(first, new, Ordering::Release, Ordering::Relaxed);
            if taken.is_ok() {
                return Some((node_of(first), value));
            }
        }
    }

    /// Makes a node the last one, unless another operation has.
    #[inline(always)]
    fn advance(&self, last: Tagged, node: u32) {
        // Release: pairs with the Acquire of a thread that reads which node is last. A failure
        // means that it is done.
        let _ = (self.last).compare_exchange(
            last,
            after(last, node),
            Ordering::Release,
            Ordering::Relaxed,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_in_first_out() {
        let stack = TaggedStack::new(4);
        assert_eq!(stack.pop(), None);
        (0..4).for_each(|node| stack.push(node));
        let nodes: Vec<_> = std::iter::from_fn(|| stack.pop()).collect();
        assert_eq!(nodes, [3, 2, 1, 0]);
    }

    #[test]
    fn first_in_first_out() {
        let queue = TaggedQueue::new(4);
        assert_eq!(queue.dequeue(), None);
        (1..4).for_each(|node| queue.enqueue(node, u64::from(node) * 10));
        assert_eq!(queue.dequeue(), Some((0, 10)));
        queue.enqueue(0, 40);
        let rest: Vec<_> = std::iter::from_fn(|| queue.dequeue()).collect();
        assert_eq!(rest, [(1, 20), (2, 30), (3, 40)]);
    }

    #[test]
    fn a_last_node_that_was_linked_but_not_told_is_no_obstacle() {
        let queue = TaggedQueue::new(3);
        let link = &queue.nodes[0].next;
        queue.nodes[1].value.store(10, Ordering::Relaxed);
        queue.nodes[1]
            .next
            .store(tagged(NONE, 0), Ordering::Relaxed);
        link.store(after(link.load(Ordering::Relaxed), 1), Ordering::Relaxed);
        queue.enqueue(2, 20);
        assert_eq!(queue.dequeue(), Some((0, 10)));
        assert_eq!(queue.dequeue(), Some((1, 20)));
        assert_eq!(queue.dequeue(), None);
    }

    #[test]
    fn a_recycled_node_does_not_pass_for_the_one_that_was_read() {
        // ABA: what an interrupted pop has read must not fit once the same node is on top again.
        let stack = TaggedStack::new(2);
        stack.push(1);
        stack.push(0);
        let read = stack.head.load(Ordering::Relaxed);
        assert_eq!((stack.pop(), stack.pop()), (Some(0), Some(1)));
        stack.push(0);
        let now = stack.head.load(Ordering::Relaxed);
        assert_eq!(node_of(read), node_of(now));
        assert_ne!(read, now);
    }
}
