//! Treiber's stack of values: each lies in a node from type-stable memory, atomseq's own, and the head has a tag beside it
//! against the ABA problem. Beside `treiber`, whose elements bring their nodes with them, it tells what nodes cost.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use atomseq::memory::{Pool, descriptor};
use crossbeam_utils::{Backoff, CachePadded};
use portable_atomic::AtomicU128;

use crate::bench::exchange::Container;

descriptor! {
    struct Node {
        next: AtomicPtr<Node>,
        value: AtomicU64,
    }
}

/// The stack.
pub struct PooledTreiber {
    /// The first node's address in the low half, the tag in the high half.
    head: CachePadded<AtomicU128>,
    nodes: Pool<Node>,
}

impl PooledTreiber {
    /// An empty stack.
    pub fn new() -> Self {
        Self {
            head: CachePadded::default(),
            nodes: Pool::new(),
        }
    }
}

/// A head with another first node and the next tag.
#[inline(always)]
fn retag(head: u128, first: *const Node) -> u128 {
    let tag = (head >> 64) as u64;
    u128::from(tag.wrapping_add(1)) << 64 | first.expose_provenance() as u128
}

fn first(head: u128) -> *const Node {
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
        let backoff = Backoff::new();
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            node.next.store(first(head).cast_mut(), Ordering::Relaxed);
            // Release: pairs with the Acquire of whoever takes the node and then reads it.
            let new = retag(head, node);
            match self
                .head
                .compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return Ok(()),
                Err(now) => head = now,
            }
            backoff.spin();
        }
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        let backoff = Backoff::new();
        // Acquire, here and on failure: pairs with the Release of the push.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            // SAFETY: null or a node of the pool, which stays one for as long as the pool lives.
            let node = unsafe { first(head).as_ref() }?;
            let new = retag(head, node.next.load(Ordering::Relaxed));
            match self
                .head
                .compare_exchange_weak(head, new, Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => {
                    let value = node.value.load(Ordering::Relaxed);
                    // SAFETY: it came out of `into_raw` in `push`, and whoever takes it off the stack has it alone.
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
