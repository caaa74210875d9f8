//! Herlihy's way to make any structure non-blocking (1993, "A Methodology for Implementing Highly
//! Concurrent Data Objects"): copy the whole structure, change the copy, and make it the structure
//! by one compare-and-swap of the root. S92 and GC96 compare themselves with it. This is a stack
//! made so.
//!
//! ```text
//! root   tag | number of a version
//! version 0   length | element element element …
//! version 1   length | element …                    one version more than there are threads: each has one to fill
//! ```
//!
//! Versions are used again, so one may be filled while another thread still copies it. The root's
//! tag then shows that the copy is invalid, as Herlihy's check words do. Only elements in use are
//! copied, and no thread has to look for a version to fill.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crossbeam_utils::{Backoff, CachePadded};

use crate::bench::workloads::exchange::Container;

/// Bits of a root that are a version's number; the others are the tag.
const NUMBER: u64 = (1 << 16) - 1;

thread_local! {
    /// The number of this thread in its crew.
    static THREAD: Cell<usize> = const { Cell::new(0) };
}

/// The stack.
pub struct CopyingStack {
    root: CachePadded<AtomicU64>,
    versions: Box<[CachePadded<Version>]>,
    /// For each thread, the number of the version that is its own to fill.
    own: Box<[CachePadded<AtomicU64>]>,
}

/// The whole stack at one time.
struct Version {
    length: AtomicU64,
    elements: Box<[AtomicU64]>,
}

impl CopyingStack {
    /// An empty stack for that many elements and threads.
    pub fn new(elements: usize, threads: usize) -> Self {
        let version = || {
            CachePadded::new(Version {
                length: AtomicU64::new(0),
                elements: (0..elements).map(|_| AtomicU64::new(0)).collect(),
            })
        };
        Self {
            root: CachePadded::default(),
            versions: (0..=threads).map(|_| version()).collect(),
            own: (1..=threads as u64)
                .map(|number| CachePadded::new(AtomicU64::new(number)))
                .collect(),
        }
    }

    /// Copies the stack, changes the copy, and makes it the stack. Retries if another thread did so
    /// meanwhile.
    #[inline(always)]
    fn update<R>(&self, change: impl Fn(&Version, usize) -> (usize, R)) -> R {
        // Relaxed: a thread's own word.
        let own = &self.own[THREAD.get()];
        let number = own.load(Ordering::Relaxed);
        let copy = &self.versions[number as usize];
        let backoff = Backoff::new();
        loop {
            // Acquire: pairs with the Release that made this version the stack.
            let root = self.root.load(Ordering::Acquire);
            let version = &self.versions[(root & NUMBER) as usize];
            let length = version.length.load(Ordering::Relaxed) as usize;
            for (to, from) in copy.elements.iter().zip(&version.elements).take(length) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            // Acquire: pairs with the Release fence of the thread that refills this version, after
            // it has changed the root.
            fence(Ordering::Acquire);
            if self.root.load(Ordering::Relaxed) == root {
                let (length, result) = change(copy, length);
                copy.length.store(length as u64, Ordering::Relaxed);
                let new = (root & !NUMBER).wrapping_add(NUMBER + 1) | number;
                // Release: pairs with the Acquire above.
                let made =
                    (self.root).compare_exchange(root, new, Ordering::AcqRel, Ordering::Relaxed);
                if made.is_ok() {
                    own.store(root & NUMBER, Ordering::Relaxed);
                    // Release: pairs with the Acquire fence above: what is filled in next shows the
                    // new root.
                    fence(Ordering::Release);
                    return result;
                }
            }
            backoff.spin();
        }
    }
}

impl Container for CopyingStack {
    fn enter(&self, thread: usize) {
        THREAD.set(thread);
    }

    #[inline(always)]
    unsafe fn push(&self, element: u64) -> Result<(), u64> {
        self.update(|copy, length| match copy.elements.get(length) {
            Some(place) => {
                place.store(element, Ordering::Relaxed);
                (length + 1, Ok(()))
            }
            None => (length, Err(element)),
        })
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        self.update(|copy, length| match length.checked_sub(1) {
            Some(top) => (top, Some(copy.elements[top].load(Ordering::Relaxed))),
            None => (length, None),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_in_first_out() {
        let stack = CopyingStack::new(2, 1);
        for (element, result) in [(1, Ok(())), (2, Ok(())), (3, Err(3))] {
            // SAFETY: each is pushed once.
            assert_eq!(unsafe { stack.push(element) }, result);
        }
        let popped: Vec<_> = std::iter::from_fn(|| stack.pop()).collect();
        assert_eq!(popped, [2, 1]);
    }

    #[test]
    fn a_root_does_not_come_back_with_its_version() {
        let stack = CopyingStack::new(1, 1);
        let before = stack.root.load(Ordering::Relaxed);
        // SAFETY: no other thread has the element.
        unsafe { stack.push(1) }.unwrap();
        stack.pop();
        let now = stack.root.load(Ordering::Relaxed);
        assert_eq!(now & NUMBER, before & NUMBER);
        assert_ne!(now, before);
    }
}
