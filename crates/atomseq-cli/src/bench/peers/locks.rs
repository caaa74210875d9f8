//! Locks, atomseq's and others', each around a tally. std's is used as it comes, poisoning
//! included, and so is parking_lot's: neither has a setting that is documented to make it faster.

use std::ptr;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crossbeam_utils::{Backoff, CachePadded};
use lock_api::RawMutex;

use crate::bench::workloads::locking::{Exclusive, Tally};

/// parking_lot's and atomseq's own, whose guards are lock_api's.
impl<R: RawMutex> Exclusive for lock_api::Mutex<R, Tally> {
    #[inline(always)]
    fn with(&self, work: impl FnOnce(&Tally)) {
        work(&self.lock());
    }
}

impl Exclusive for std::sync::Mutex<Tally> {
    #[inline(always)]
    fn with(&self, work: impl FnOnce(&Tally)) {
        work(&self.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A test-and-test-and-set lock with exponential backoff (Anderson 1990; Mellor-Crummey and Scott
/// 1991, 2.1). A waiter doubles its wait after each look at a held lock, and yields once the wait
/// is long, so that more threads than there are CPUs can use it.
#[derive(Default)]
pub struct BackoffLock {
    held: AtomicBool,
    tally: Tally,
}

impl Exclusive for BackoffLock {
    #[inline(always)]
    fn with(&self, work: impl FnOnce(&Tally)) {
        if self.held.swap(true, Ordering::Acquire) {
            self.wait();
        }
        work(&self.tally);
        // Release: pairs with the Acquire of the next holder.
        self.held.store(false, Ordering::Release);
    }
}

impl BackoffLock {
    #[cold]
    fn wait(&self) {
        let backoff = Backoff::new();
        loop {
            backoff.snooze();
            // Relaxed: a hint. Acquire: pairs with the Release in `with`.
            if !self.held.load(Ordering::Relaxed) && !self.held.swap(true, Ordering::Acquire) {
                return;
            }
        }
    }
}

/// A queue lock: Mellor-Crummey and Scott's (1991, figure 5). Each waiter spins on a word of its
/// own, and the lock passes from one to the next in the order of arrival. A thread that has waited
/// for long yields: with more threads than CPUs, the next one in the queue is often not running,
/// and the others would wait until its turn comes.
///
/// ```text
/// tail ─────────────────────────┐
///                               v
/// holder's node ── next ──> waiter's node ── next ──> null
///                           must_wait
/// ```
#[derive(Default)]
pub struct QueueLock {
    /// The node of the thread that arrived last; null when the lock is free.
    tail: AtomicPtr<CachePadded<Node>>,
    tally: Tally,
}

/// The holder or a waiter.
struct Node {
    next: AtomicPtr<CachePadded<Node>>,
    must_wait: AtomicBool,
}

impl Exclusive for QueueLock {
    #[inline(always)]
    fn with(&self, work: impl FnOnce(&Tally)) {
        let node = CachePadded::new(Node {
            next: AtomicPtr::new(ptr::null_mut()),
            must_wait: AtomicBool::new(true),
        });
        let address = ptr::from_ref(&node).cast_mut();
        // AcqRel: the Release publishes the node to the successor, whose Acquire is this same
        // exchange; the Acquire also pairs with the Release of a holder that found no waiter and
        // cleared the tail.
        let before = self.tail.swap(address, Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: the owner of that node does not leave before it has found this successor and
            // released it.
            let before = unsafe { &*before };
            wait_behind(before, &node, address);
        }
        // Leaves the queue also if the work panics: successors must not wait for a node that no
        // longer exists.
        let _leaving = Leaving {
            lock: self,
            node: &node,
            address,
        };
        work(&self.tally);
    }
}

#[cold]
fn wait_behind(before: &Node, node: &Node, address: *mut CachePadded<Node>) {
    // Release: publishes this node to the holder, which loads it with Acquire.
    before.next.store(address, Ordering::Release);
    let backoff = Backoff::new();
    // Acquire: pairs with the Release that ends the wait.
    while node.must_wait.load(Ordering::Acquire) {
        backoff.snooze();
    }
}

/// Hands the lock on when dropped.
struct Leaving<'a> {
    lock: &'a QueueLock,
    node: &'a Node,
    address: *mut CachePadded<Node>,
}

impl Drop for Leaving<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Acquire: pairs with the Release in `wait_behind`.
        let mut next = self.node.next.load(Ordering::Acquire);
        if next.is_null() {
            // Release: pairs with the Acquire of the next holder. Relaxed: on failure nothing is
            // read.
            let free = self.lock.tail.compare_exchange(
                self.address,
                ptr::null_mut(),
                Ordering::Release,
                Ordering::Relaxed,
            );
            if free.is_ok() {
                return;
            }
            next = self.successor();
        }
        // SAFETY: the successor waits for the next line, and its node lives as long.
        let next = unsafe { &*next };
        // Release: pairs with the Acquire in `wait_behind`.
        next.must_wait.store(false, Ordering::Release);
    }
}

impl Leaving<'_> {
    /// The successor that has arrived but not yet linked its node.
    #[cold]
    fn successor(&self) -> *mut CachePadded<Node> {
        let backoff = Backoff::new();
        loop {
            // Acquire: pairs with the Release in `wait_behind`.
            let next = self.node.next.load(Ordering::Acquire);
            if !next.is_null() {
                return next;
            }
            backoff.snooze();
        }
    }
}
