//! How a thread that waits lends its stack to what it waits for, if no kernel thread is left.
//!
//! ```text
//! waiter     offer ── leaves RUNNING ── ... ── goes on ── withdraw ── runs what a turn brought
//! scheduler              claim ── takes the waiter, or not ── takes the new thread ── grant
//! ```
//!
//! Invariants:
//!
//! 1. An offer names what its thread waits for: an entry or the count of a scope, to which the
//!    thread has a reference until it has withdrawn the offer. A scheduler has a reference to the
//!    entry that it compares, and by it to the count. So equal addresses are of the same object.
//! 2. One scheduler at a time has claimed an offer. While it has, the waiter does not get past
//!    `withdraw`, so the waiter exists, and no later wait of it is taken for this one.
//! 3. A waiter that was taken is RUNNING until it has withdrawn its offer, so it is taken once. It
//!    continues by the one grant of the scheduler that took it, which brings the new thread, or
//!    none if that was suspended.
//! 4. What a turn brought runs before its waiter waits again.

use core::ptr;

use crate::sync::{AtomicPtr, Ordering::SeqCst, yield_now};

/// In place of an offer, while a scheduler takes its thread. No address of what is awaited, which
/// is a multiple of 8.
const CLAIMED: *mut () = ptr::without_provenance_mut(1);

/// The part of a carrier that lends.
#[derive(Debug)]
pub(crate) struct Lending {
    /// What the current thread waits for and may run on its stack, null, or CLAIMED.
    offered: AtomicPtr<()>,
    /// The entry of a new thread that a turn of the current one brought, or null.
    brought: AtomicPtr<()>,
}

impl Lending {
    /// Returns one without an offer.
    pub fn new() -> Lending {
        Lending {
            offered: AtomicPtr::new(ptr::null_mut()),
            brought: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Offers the stack of the current thread, which is about to wait for that.
    pub fn offer(&self, awaited: *mut ()) {
        self.offered.store(awaited, SeqCst);
    }

    /// Ends the offer of the current thread, which has waited for that. A scheduler that has
    /// claimed it decides in a moment.
    pub fn withdraw(&self, awaited: *mut ()) {
        let null = ptr::null_mut();
        while self.offered.compare_exchange(awaited, null, SeqCst, SeqCst) == Err(CLAIMED) {
            yield_now();
        }
    }

    /// Returns whether the current thread offers its stack to that.
    pub fn offers(&self, awaited: *mut ()) -> bool {
        self.offered.load(SeqCst) == awaited
    }

    /// Claims the offer to that, and calls `take`, which takes the thread out of its wait if it
    /// still waits. Returns whether it did. The offer stays: the thread may be about to wait.
    pub fn claim(&self, awaited: *mut (), take: impl FnOnce() -> bool) -> bool {
        if self
            .offered
            .compare_exchange(awaited, CLAIMED, SeqCst, SeqCst)
            .is_err()
        {
            return false;
        }
        let is_taken = take();
        self.offered.store(awaited, SeqCst);
        is_taken
    }

    /// Brings a new thread with a turn of the current one. Null brings none: such a turn may come
    /// between the one that brought a thread and the run of that.
    pub fn bring(&self, task: *mut ()) {
        if !task.is_null() {
            self.brought.store(task, SeqCst);
        }
    }

    /// Returns whether a thread was brought that has not begun.
    pub fn has_brought(&self) -> bool {
        !self.brought.load(SeqCst).is_null()
    }

    /// Takes the thread that was brought, to run it, or null.
    pub fn receive(&self) -> *mut () {
        self.brought.swap(ptr::null_mut(), SeqCst)
    }
}
