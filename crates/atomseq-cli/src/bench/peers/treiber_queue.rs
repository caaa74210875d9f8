//! A queue of two Treiber stacks: elements are pushed onto the inbox; whoever finds the outbox
//! empty takes the inbox whole, turns it round, keeps its first and puts the rest on the outbox.
//!
//! Between one thread's pushes and another's pops it is first in, first out; two threads that turn
//! an inbox round at once may mix theirs, and elements in a turner's hands are found by nobody else
//! for that moment. It is what the field uses where such a queue need not be exact, and its pair
//! costs two double-width compare-and-swaps at best, four when it is nearly empty.

use super::treiber::{Head, Nodes};
use crate::bench::exchange::Container;

/// The queue.
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
}
