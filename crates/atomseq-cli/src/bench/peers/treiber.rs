//! Treiber's stack over type-stable nodes, with a tag beside the head against the ABA problem: a double-width
//! compare-and-swap (cmpxchg16b, casp) an operation, and a backoff when it fails.
//!
//! Elements are the nodes' numbers: an element is its own node, as with an intrusive list, so no operation has to find a
//! free node first.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::{Backoff, CachePadded};
use portable_atomic::AtomicU128;

use crate::bench::exchange::Container;

/// The end of a chain.
const END: u64 = u64::MAX;

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

    // Relaxed: the head's compare-and-swap orders the links (see `Head`), and a link read too late is thrown away with
    // the failing compare-and-swap.

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

    /// Cuts the first node off a chain that nobody else can reach; what remains, `None` when nothing does.
    pub fn rest(&self, first: u64) -> Option<u64> {
        Some(self.next(first)).filter(|&next| next != END)
    }
}

/// The head of a stack: the first node's number in the low half, the tag in the high half.
pub struct Head(CachePadded<AtomicU128>);

impl Head {
    /// The head of an empty stack.
    pub fn new() -> Self {
        Self(CachePadded::new(AtomicU128::new(u128::from(END))))
    }

    /// Puts a chain, from `first` to `last`, on top.
    #[inline(always)]
    pub fn push(&self, nodes: &Nodes, first: u64, last: u64) {
        let backoff = Backoff::new();
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            nodes.link(last, head as u64);
            // Release: pairs with the Acquire of whoever takes `first` and then reads its link.
            let new = retag(head, first);
            match self
                .0
                .compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
            backoff.spin();
        }
    }

    /// Takes the top node.
    #[inline(always)]
    pub fn pop(&self, nodes: &Nodes) -> Option<u64> {
        let backoff = Backoff::new();
        // Acquire, here and on failure: pairs with the Release of the push, so that the link is that of this push.
        let mut head = self.0.load(Ordering::Acquire);
        loop {
            let first = head as u64;
            if first == END {
                return None;
            }
            let new = retag(head, nodes.next(first));
            match self
                .0
                .compare_exchange_weak(head, new, Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => return Some(first),
                Err(now) => head = now,
            }
            backoff.spin();
        }
    }

    /// Takes everything, as a chain.
    #[inline(always)]
    pub fn take(&self) -> Option<u64> {
        let mut head = self.0.load(Ordering::Acquire);
        while head as u64 != END {
            // Acquire: as in `pop`.
            match self.0.compare_exchange_weak(
                head,
                retag(head, END),
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(head as u64),
                Err(now) => head = now,
            }
        }
        None
    }
}

/// A head with another first node and the next tag.
#[inline(always)]
fn retag(head: u128, first: u64) -> u128 {
    let tag = (head >> 64) as u64;
    u128::from(tag.wrapping_add(1)) << 64 | u128::from(first)
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
