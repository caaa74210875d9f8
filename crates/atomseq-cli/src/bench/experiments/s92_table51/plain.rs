//! The objects of S92's table without any synchronization: words in memory, loaded and stored.
//! Locks are put around these.
//!
//! The words are atomics so that the compiler leaves each store where it is; loads and stores of
//! them are plain instructions.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::{Attempts, CAPACITY, Pair};

/// Whether something took its one attempt, or was refused.
fn once(done: bool) -> Attempts {
    Attempts(u64::from(done))
}

/// A counter.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Pair for Counter {
    #[inline(always)]
    fn put(&self, _value: u64) -> Attempts {
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
        once(true)
    }

    #[inline(always)]
    fn take(&self) -> (u64, Attempts) {
        let value = self.0.load(Relaxed);
        self.0.store(value - 1, Relaxed);
        (value, once(true))
    }
}

/// A number of permits: `put` gets one, `take` gives it back.
pub struct Permits(AtomicU64);

impl Default for Permits {
    fn default() -> Self {
        Self(AtomicU64::new(CAPACITY))
    }
}

impl Pair for Permits {
    #[inline(always)]
    fn put(&self, _value: u64) -> Attempts {
        let permits = self.0.load(Relaxed);
        if permits == 0 {
            return once(false);
        }
        self.0.store(permits - 1, Relaxed);
        once(true)
    }

    #[inline(always)]
    fn take(&self) -> (u64, Attempts) {
        let permits = self.0.load(Relaxed) + 1;
        self.0.store(permits, Relaxed);
        (permits, once(true))
    }
}

/// An array's words.
fn words(number: u64) -> Box<[AtomicU64]> {
    (0..number).map(|_| AtomicU64::new(0)).collect()
}

/// A stack in an array.
pub struct Stack {
    height: AtomicU64,
    cells: Box<[AtomicU64]>,
}

impl Default for Stack {
    fn default() -> Self {
        Self {
            height: AtomicU64::new(0),
            cells: words(CAPACITY),
        }
    }
}

impl Pair for Stack {
    #[inline(always)]
    fn put(&self, value: u64) -> Attempts {
        let height = self.height.load(Relaxed);
        let Some(cell) = self.cells.get(height as usize) else {
            return once(false);
        };
        cell.store(value, Relaxed);
        self.height.store(height + 1, Relaxed);
        once(true)
    }

    #[inline(always)]
    fn take(&self) -> (u64, Attempts) {
        let lower = self.height.load(Relaxed).wrapping_sub(1);
        let Some(cell) = self.cells.get(lower as usize) else {
            return (0, once(false));
        };
        let value = cell.load(Relaxed);
        self.height.store(lower, Relaxed);
        (value, once(true))
    }
}

/// A circular queue (figure 5.6): one cell stays empty.
pub struct Queue {
    head: AtomicU64,
    tail: AtomicU64,
    cells: Box<[AtomicU64]>,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            cells: words(CAPACITY + 1),
        }
    }
}

impl Queue {
    /// The next place.
    #[inline(always)]
    fn after(&self, place: u64) -> u64 {
        let next = place + 1;
        if next >= self.cells.len() as u64 {
            0
        } else {
            next
        }
    }
}

impl Pair for Queue {
    #[inline(always)]
    fn put(&self, value: u64) -> Attempts {
        let head = self.head.load(Relaxed);
        let next = self.after(head);
        if next == self.tail.load(Relaxed) {
            return once(false);
        }
        self.cells[head as usize].store(value, Relaxed);
        self.head.store(next, Relaxed);
        once(true)
    }

    #[inline(always)]
    fn take(&self) -> (u64, Attempts) {
        let tail = self.tail.load(Relaxed);
        if tail == self.head.load(Relaxed) {
            return (0, once(false));
        }
        let value = self.cells[tail as usize].load(Relaxed);
        self.tail.store(self.after(tail), Relaxed);
        (value, once(true))
    }
}

/// A linked list, inserted in and deleted from at its head (figure 5.4), and its nodes that are
/// free, linked as well. A link is a node's number and 1, or 0.
pub struct List {
    first: AtomicU64,
    free: AtomicU64,
    nodes: Box<[Node]>,
}

/// As far from the next one as the nodes of the list that is compared with.
#[repr(align(64))]
struct Node {
    next: AtomicU64,
    value: AtomicU64,
}

impl Default for List {
    fn default() -> Self {
        let node = |next| Node {
            next: AtomicU64::new(next),
            value: AtomicU64::new(0),
        };
        Self {
            first: AtomicU64::new(0),
            free: AtomicU64::new(CAPACITY),
            nodes: (0..CAPACITY).map(node).collect(),
        }
    }
}

impl List {
    /// Moves the first node of one chain to the front of another; which one, if there was one.
    #[inline(always)]
    fn shift(&self, from: &AtomicU64, to: &AtomicU64, value: Option<u64>) -> Option<&Node> {
        let link = from.load(Relaxed);
        let node = self.nodes.get(link.wrapping_sub(1) as usize)?;
        from.store(node.next.load(Relaxed), Relaxed);
        if let Some(value) = value {
            node.value.store(value, Relaxed);
        }
        node.next.store(to.load(Relaxed), Relaxed);
        to.store(link, Relaxed);
        Some(node)
    }
}

impl Pair for List {
    #[inline(always)]
    fn put(&self, value: u64) -> Attempts {
        once(self.shift(&self.free, &self.first, Some(value)).is_some())
    }

    #[inline(always)]
    fn take(&self) -> (u64, Attempts) {
        match self.shift(&self.first, &self.free, None) {
            Some(node) => (node.value.load(Relaxed), once(true)),
            None => (0, once(false)),
        }
    }
}
