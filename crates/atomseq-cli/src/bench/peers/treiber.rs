//! Treiber's stack, with a tag beside the head against the ABA problem: a double-width
//! compare-and-swap (cmpxchg16b, casp) an operation, and a backoff when it fails. Three containers
//! are made of it: a stack whose elements are their own nodes, as with an intrusive list, so that
//! no operation has to find a free node first; a queue of two such stacks; and a stack of values,
//! which lie in nodes from atomseq's type-stable memory.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use atomseq::type_stable::{Pool, descriptor};
use crossbeam_utils::{Backoff, CachePadded};

use super::double_word::{DoubleWord, MAX};
use crate::bench::workloads::exchange::Container;

/// The end of a chain.
const END: u64 = MAX;

/// The nodes: the number of the next one, each alone on its cache lines.
pub struct Nodes(Box<[CachePadded<AtomicU64>]>);

impl Nodes {
    /// Nodes for the elements `0..elements`.
    pub fn new(elements: usize) -> Self {
        Self(
            (0..elements)
                .map(|_| CachePadded::new(AtomicU64::new(END)))
                .collect(),
        )
    }

    // Relaxed: the head's compare-and-swap orders the links (see `Head`), and a link read too late
    // is discarded with the failing compare-and-swap.

    #[inline(always)]
    fn next(&self, node: u64) -> u64 {
        self.0[node as usize].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn link(&self, node: u64, next: u64) {
        self.0[node as usize].store(next, Ordering::Relaxed);
    }

    /// Reverses a chain; returns its new first and last nodes.
    pub fn reverse(&self, chain: u64) -> (u64, u64) {
        let (mut node, mut reversed) = (chain, END);
        while node != END {
            let next = self.next(node);
            self.link(node, reversed);
            (reversed, node) = (node, next);
        }
        (reversed, chain)
    }

    /// Cuts the first node off a chain that no other thread can reach; returns what remains, or
    /// `None`.
    pub fn rest(&self, first: u64) -> Option<u64> {
        Some(self.next(first)).filter(|&next| next != END)
    }
}

/// The head of a stack: the first node's number, and the tag.
pub struct Head(CachePadded<DoubleWord>);

impl Head {
    /// The head of an empty stack.
    pub fn new() -> Self {
        Self(CachePadded::new(DoubleWord::new(END)))
    }

    // The Release of the head's compare-and-swap pairs with the Acquire of a thread that takes a
    // node and then reads its link, or finds another head.

    /// Puts a chain, from `first` to `last`, on top.
    #[inline(always)]
    pub fn push(&self, nodes: &Nodes, first: u64, last: u64) {
        let backoff = Backoff::new();
        let mut head = self.0.load();
        loop {
            nodes.link(last, head.word);
            match self.0.replace(head, first) {
                Ok(()) => return,
                Err(now) => head = now,
            }
            backoff.spin();
        }
    }

    /// Takes the top node.
    #[inline(always)]
    pub fn pop(&self, nodes: &Nodes) -> Option<u64> {
        let backoff = Backoff::new();
        let mut head = self.0.load();
        loop {
            let first = head.word;
            if first == END {
                return None;
            }
            match self.0.replace(head, nodes.next(first)) {
                Ok(()) => return Some(first),
                Err(now) => head = now,
            }
            backoff.spin();
        }
    }

    /// Takes everything, as a chain.
    #[inline(always)]
    pub fn take(&self) -> Option<u64> {
        let mut head = self.0.load();
        while head.word != END {
            match self.0.replace(head, END) {
                Ok(()) => return Some(head.word),
                Err(now) => head = now,
            }
        }
        None
    }
}

/// Treiber's stack.
pub struct TreiberStack {
    nodes: Nodes,
    head: Head,
}

impl TreiberStack {
    /// An empty stack for the elements `0..elements`.
    pub fn new(elements: usize) -> Self {
        Self {
            nodes: Nodes::new(elements),
            head: Head::new(),
        }
    }
}

impl Container for TreiberStack {
    #[inline(always)]
    unsafe fn push(&self, element: u64) -> Result<(), u64> {
        self.head.push(&self.nodes, element, element);
        Ok(())
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        self.head.pop(&self.nodes)
    }
}

/// A queue of two Treiber stacks: elements are pushed onto the inbox. A thread that finds the
/// outbox empty takes the whole inbox, reverses it, keeps its first element and puts the rest on
/// the outbox.
///
/// Between one thread's pushes and another's pops it is first in, first out. Two threads that
/// reverse an inbox at once may mix theirs, and other threads cannot find the elements in a
/// reverser's hands meanwhile. It is what the field uses where such a queue need not be exact. A
/// pair costs two double-width compare-and-swaps at best, four when the queue is nearly empty.
pub struct TreiberQueue {
    nodes: Nodes,
    inbox: Head,
    outbox: Head,
}

impl TreiberQueue {
    /// An empty queue for the elements `0..elements`.
    pub fn new(elements: usize) -> Self {
        Self {
            nodes: Nodes::new(elements),
            inbox: Head::new(),
            outbox: Head::new(),
        }
    }

    /// Refills the outbox from the inbox and keeps the first element.
    fn turn(&self) -> Option<u64> {
        let (first, last) = self.nodes.reverse(self.inbox.take()?);
        if let Some(rest) = self.nodes.rest(first) {
            self.outbox.push(&self.nodes, rest, last);
        }
        Some(first)
    }
}

impl Container for TreiberQueue {
    #[inline(always)]
    unsafe fn push(&self, element: u64) -> Result<(), u64> {
        self.inbox.push(&self.nodes, element, element);
        Ok(())
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        self.outbox.pop(&self.nodes).or_else(|| self.turn())
    }
}

descriptor! {
    struct Node {
        next: AtomicPtr<Node>,
        value: AtomicU64,
    }
}

/// Treiber's stack of values, each in a node from type-stable memory, atomseq's own. Its difference
/// to [`TreiberStack`] is the cost of nodes.
pub struct PooledTreiber {
    /// The first node's address, and the tag.
    head: CachePadded<DoubleWord>,
    nodes: Pool<Node>,
}

impl PooledTreiber {
    /// An empty stack.
    pub fn new() -> Self {
        Self {
            head: CachePadded::new(DoubleWord::new(0)),
            nodes: Pool::new(),
        }
    }
}

fn first(head: u64) -> *const Node {
    ptr::with_exposed_provenance(head as usize)
}

impl Container for PooledTreiber {
    #[inline(always)]
    unsafe fn push(&self, element: u64) -> Result<(), u64> {
        let Ok(node) = self.nodes.allocate() else {
            return Err(element);
        };
        let node = node.into_raw();
        node.value.store(element, Ordering::Relaxed);
        let address = ptr::from_ref(node).expose_provenance() as u64;
        let backoff = Backoff::new();
        let mut head = self.head.load();
        loop {
            node.next
                .store(first(head.word).cast_mut(), Ordering::Relaxed);
            // Release: pairs with the Acquire of a thread that takes the node and then reads it.
            match self.head.replace(head, address) {
                Ok(()) => return Ok(()),
                Err(now) => head = now,
            }
            backoff.spin();
        }
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        let backoff = Backoff::new();
        // Acquire, here and on failure: pairs with the Release of the push.
        let mut head = self.head.load();
        loop {
            // SAFETY: null or a node of the pool, which stays one for as long as the pool lives.
            let node = unsafe { first(head.word).as_ref() }?;
            let next = node.next.load(Ordering::Relaxed);
            match self.head.replace(head, next.addr() as u64) {
                Ok(()) => {
                    let value = node.value.load(Ordering::Relaxed);
                    // SAFETY: it came out of `into_raw` in `push`, and the thread that pops it owns
                    // it exclusively.
                    drop(unsafe { self.nodes.adopt(node) });
                    return Some(value);
                }
                Err(now) => head = now,
            }
            backoff.spin();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_in_first_out() {
        let queue = TreiberQueue::new(8);
        for element in 0..5 {
            // SAFETY: each is pushed once.
            unsafe { queue.push(element) }.unwrap();
        }
        assert_eq!((queue.pop(), queue.pop()), (Some(0), Some(1)));
        for element in 5..8 {
            // SAFETY: each is pushed once.
            unsafe { queue.push(element) }.unwrap();
        }
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, [2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn last_in_first_out() {
        let stack = PooledTreiber::new();
        for element in 0..100 {
            // SAFETY: each is pushed once.
            unsafe { stack.push(element) }.unwrap();
        }
        let popped: Vec<_> = std::iter::from_fn(|| stack.pop()).collect();
        assert!(popped.into_iter().rev().eq(0..100));
    }
}
