//! Harris's ordered list as Michael has it (2002, "High Performance Dynamic Lock-Free Hash Tables
//! and List-Based Sets", figure 5): by single-word compare-and-swap alone. A node that is deleted
//! is marked first, in its own link, and unlinked by the next thread that passes it. Nodes are from
//! type-stable memory, atomseq's own, and used again at once: every link has a tag that changes
//! with it.
//!
//! ```text
//! link   63 … 42 tag | 41 … 1 address of the next node / 64 | 0 this node is deleted
//! ```

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use atomseq::type_stable::{Pool, descriptor};
use crossbeam_utils::CachePadded;

use crate::bench::workloads::ordered::Ordered;

const DELETED: u64 = 1;
const TAG: u64 = 1 << 42;
const ADDRESS: u64 = (TAG - 1) & !DELETED;

descriptor! {
    struct Node {
        link: AtomicU64,
        key: AtomicU64,
        value: AtomicU64,
        /// So that a node has the lines of a cache to itself.
        _rest: [AtomicU64; 5],
    }
}

const _: () = assert!(size_of::<Node>() == 64);

/// The list.
pub struct HarrisMichael {
    head: CachePadded<AtomicU64>,
    nodes: Pool<Node>,
}

/// Where a key is or would be.
struct Place<'l> {
    /// The link to that node, and what it holds.
    link: &'l AtomicU64,
    held: u64,
    /// The node's own link, if it has the key.
    found: Option<(&'l Node, u64)>,
}

impl HarrisMichael {
    /// An empty list.
    pub fn new() -> Self {
        Self {
            head: CachePadded::default(),
            nodes: Pool::new(),
        }
    }

    fn node(&self, link: u64) -> Option<&Node> {
        let address = (link & ADDRESS) << 5;
        // SAFETY: null or the address of a node of the pool, which stays one for as long as the
        // pool lives.
        unsafe { ptr::with_exposed_provenance::<Node>(address as usize).as_ref() }
    }

    /// Finds the place of a key, and unlinks what it finds deleted on the way.
    #[inline(always)]
    fn search(&self, key: u64) -> Place<'_> {
        'again: loop {
            let mut link: &AtomicU64 = &self.head;
            // Acquire, all loads here: pair with the Releases that link nodes, and keep the second
            // look at a link behind them.
            let mut held = link.load(Ordering::Acquire);
            loop {
                let Some(node) = self.node(held) else {
                    return Place {
                        link,
                        held,
                        found: None,
                    };
                };
                let next = node.link.load(Ordering::Acquire);
                let its = node.key.load(Ordering::Acquire);
                if link.load(Ordering::Relaxed) != held {
                    continue 'again;
                }
                if next & DELETED == 0 {
                    if its >= key {
                        return Place {
                            link,
                            held,
                            found: (its == key).then_some((node, next)),
                        };
                    }
                    (link, held) = (&node.link, next);
                    continue;
                }
                match self.unlink(link, held, next) {
                    Some(now) => held = now,
                    None => continue 'again,
                }
            }
        }
    }

    /// Unlinks a deleted node and frees it; what its predecessor's link holds then.
    #[inline(always)]
    fn unlink(&self, link: &AtomicU64, held: u64, next: u64) -> Option<u64> {
        let new = after(held, next & ADDRESS);
        // Release: pairs with the Acquire of a thread that follows the link.
        (link.compare_exchange(held, new, Ordering::AcqRel, Ordering::Relaxed)).ok()?;
        let node = self.node(held)?;
        // SAFETY: it came out of `into_raw` in `insert`; the thread that unlinks it owns it
        // exclusively.
        drop(unsafe { self.nodes.adopt(node) });
        Some(new)
    }
}

/// The next tag, and that node.
#[inline(always)]
fn after(link: u64, node: u64) -> u64 {
    (link & !(TAG - 1)).wrapping_add(TAG) | node
}

impl Ordered for HarrisMichael {
    #[inline(always)]
    fn insert(&self, key: u64, value: u64) -> bool {
        let Ok(node) = self.nodes.allocate() else {
            return false;
        };
        let node = node.into_raw();
        let address = ptr::from_ref(node).expose_provenance() as u64;
        debug_assert!(
            address >> 5 & !ADDRESS == 0,
            "an address of 47 bits, a multiple of 64"
        );
        node.key.store(key, Ordering::Relaxed);
        node.value.store(value, Ordering::Relaxed);
        loop {
            let place = self.search(key);
            if place.found.is_some() {
                // SAFETY: it came out of `into_raw` above, and no other thread has seen it.
                drop(unsafe { self.nodes.adopt(node) });
                return false;
            }
            let own = node.link.load(Ordering::Relaxed);
            node.link
                .store(after(own, place.held & ADDRESS), Ordering::Relaxed);
            let new = after(place.held, address >> 5);
            // Release: pairs with the Acquire of a thread that follows the link.
            let linked = (place.link).compare_exchange(
                place.held,
                new,
                Ordering::Release,
                Ordering::Relaxed,
            );
            if linked.is_ok() {
                return true;
            }
        }
    }

    #[inline(always)]
    fn remove(&self, key: u64) -> Option<u64> {
        loop {
            let place = self.search(key);
            let (node, next) = place.found?;
            let value = node.value.load(Ordering::Acquire);
            let deleted = after(next, next & ADDRESS) | DELETED;
            // AcqRel: a thread that unlinks the node has seen the mark, and this thread has seen
            // the node as it was linked.
            let marked =
                (node.link).compare_exchange(next, deleted, Ordering::AcqRel, Ordering::Relaxed);
            if marked.is_err() {
                continue;
            }
            if self.unlink(place.link, place.held, next).is_none() {
                self.search(key);
            }
            return Some(value);
        }
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        loop {
            let (node, next) = self.search(key).found?;
            let value = node.value.load(Ordering::Acquire);
            // The tag shows whether the value was still read from this node.
            if node.link.load(Ordering::Relaxed) == next {
                return Some(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_order_and_once() {
        let list = HarrisMichael::new();
        for key in [5, 1, 3] {
            assert!(list.insert(key, key * 10));
        }
        assert!(!list.insert(3, 0));
        assert_eq!((list.get(3), list.get(2)), (Some(30), None));
        assert_eq!((list.remove(3), list.remove(3)), (Some(30), None));
        let mut link = list.head.load(Ordering::Relaxed);
        let mut keys = Vec::new();
        while let Some(node) = list.node(link) {
            keys.push(node.key.load(Ordering::Relaxed));
            link = node.link.load(Ordering::Relaxed);
        }
        assert_eq!(keys, [1, 5]);
    }

    #[test]
    fn a_search_unlinks_a_deleted_node() {
        let list = HarrisMichael::new();
        assert!(list.insert(1, 10) && list.insert(2, 20));
        // As if a thread that removes 1 were preempted after marking it.
        let (node, next) = list.search(1).found.unwrap();
        node.link
            .store(after(next, next & ADDRESS) | DELETED, Ordering::Relaxed);
        assert_eq!((list.get(1), list.get(2)), (None, Some(20)));
        assert!(list.insert(1, 11));
        assert_eq!(list.get(1), Some(11));
    }
}
