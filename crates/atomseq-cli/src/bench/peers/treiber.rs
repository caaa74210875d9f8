//! Treiber's stack over type-stable nodes, with a tag beside the head against the ABA problem: a
//! double-width compare-and-swap (cmpxchg16b, casp) an operation, and a backoff when it fails.
//!
//! Elements are the nodes' numbers: an element is its own node, as with an intrusive list, so no
//! operation has to find a free node first.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::{Backoff, CachePadded};

use super::double_word::{DoubleWord, MAX};
use crate::bench::exchange::Container;

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
    // is thrown away with the failing compare-and-swap.

    #[inline(always)]
    fn next(&self, node: u64) -> u64 {
        self.0[node as usize].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn link(&self, node: u64, next: u64) {
        self.0[node as usize].store(next, Ordering::Relaxed);
    }

    /// Turns a chain round; its new first and last nodes.
    pub fn reverse(&self, chain: u64) -> (u64, u64) {
        let (mut node, mut reversed) = (chain, END);
        while node != END {
            let next = self.next(node);
            self.link(node, reversed);
            (reversed, node) = (node, next);
        }
        (reversed, chain)
    }

    /// Cuts the first node off a chain that nobody else can reach; what remains, `None` when
    /// nothing does.
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

    // The Release of the head's compare-and-swap pairs with the Acquire of whoever takes a node and
    // then reads its link, or finds another head.

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
