//! Treiber's stack of values: each lies in a node from type-stable memory, atomseq's own, and the
//! head has a tag beside it against the ABA problem. Beside `treiber`, whose elements bring their
//! nodes with them, it tells what nodes cost.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use atomseq::type_stable::{Pool, descriptor};
use crossbeam_utils::{Backoff, CachePadded};

use super::double_word::DoubleWord;
use crate::bench::exchange::Container;

descriptor! {
    struct Node {
        next: AtomicPtr<Node>,
        value: AtomicU64,
    }
}

/// The stack.
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
            // Release: pairs with the Acquire of whoever takes the node and then reads it.
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
                    // SAFETY: it came out of `into_raw` in `push`, and whoever takes it off the
                    // stack has it alone.
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
