//! Lamport's fast mutual exclusion algorithm (B91, figure 1), by its line numbers, and the
//! test-and-set inside it (figure 2).
//!
//! ```text
//! x   the thread that asked last: the reservation
//! y   the thread that entered last, or 0: the owner
//! b   a flag for each thread: it has asked and was not refused yet, or is inside
//!
//! alone    1 2 | 3 9 | 10    19    21 22      | are the fences
//! ```
//!
//! Two orders keep two threads from both entering: that of the store to `x` before the load of `y`,
//! and that of the store to `y` before the load of `x`. Processors reorder a store and a later
//! load, so a fence stands between them. On one CPU a thread sees its own accesses in order, and
//! all others see them through a context switch.
//!
//! The model checker in `verify/` compiles this file a second time.

use crate::sync::{AtomicBool, AtomicU32, Ordering, relinquish};

/// The words of one instance, for threads numbered from 0 to `N - 1`. In `x` and `y` a thread is
/// represented by its number plus one.
#[derive(Clone, Copy)]
pub struct Words<'a, const N: usize> {
    pub x: &'a AtomicU32,
    pub y: &'a AtomicU32,
    pub b: &'a [AtomicBool; N],
}

/// The place of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Between the lines 2 and 3.
    Contention,
    /// Between the lines 9 and 10.
    Collision,
}

impl<const N: usize> Words<'_, N> {
    /// Runs lines 1 to 18. Returns when this thread may enter the critical section.
    #[inline(always)]
    pub fn enter(self, thread: u8, fence: impl Fn(Before)) {
        let own = u32::from(thread) + 1;
        loop {
            // Relaxed: the fence orders both stores before the load of `y`; it pairs with the
            // fences of other threads.
            self.b[usize::from(thread)].store(true, Ordering::Relaxed); // 1
            self.x.store(own, Ordering::Relaxed); // 2
            fence(Before::Contention);
            // Acquire: pairs with the Release in `leave`.
            if self.y.load(Ordering::Acquire) != 0 {
                self.contended(thread); // 4, 5
                continue; // 6
            }
            // Relaxed: the fence orders the store before the load of `x`; it pairs with the fences
            // of other threads.
            self.y.store(own, Ordering::Relaxed); // 9
            fence(Before::Collision);
            // Relaxed: the value only shows which thread asked last.
            if self.x.load(Ordering::Relaxed) == own || self.is_let_in_after_collision(thread) {
                return;
            }
        }
    }

    /// Runs lines 4 and 5.
    #[cold]
    fn contended(self, thread: u8) {
        // Release: pairs with the Acquire of line 12.
        self.b[usize::from(thread)].store(false, Ordering::Release); // 4
        self.wait_for_leave(); // 5
    }

    /// Runs lines 11 to 14. Of all threads that found `y` clear, the last to write it enters, once
    /// all of them have written.
    #[cold]
    fn is_let_in_after_collision(self, thread: u8) -> bool {
        // Release: pairs with the Acquire of line 12, so that a thread that sees the lowered flag
        // also sees this thread's `y`.
        self.b[usize::from(thread)].store(false, Ordering::Release); // 11
        for other in self.b {
            // Acquire: pairs with the Release of the lines 4, 11 and 22.
            while other.load(Ordering::Acquire) {
                relinquish(); // 12
            }
        }
        // Relaxed: line 12 has acquired what other threads wrote before they lowered their flags.
        if self.y.load(Ordering::Relaxed) == u32::from(thread) + 1 {
            return true; // 13
        }
        self.wait_for_leave(); // 14
        false // 15
    }

    /// Runs `await y = 0`.
    fn wait_for_leave(self) {
        // Relaxed: line 3 loads it again with Acquire.
        while self.y.load(Ordering::Relaxed) != 0 {
            relinquish();
        }
    }

    /// Runs lines 21 and 22.
    #[inline(always)]
    pub fn leave(self, thread: u8) {
        // In this order: a thread that waits for the flag in line 12 must not find its own name in
        // `y` afterwards. Release: pairs with the Acquire of line 3.
        self.y.store(0, Ordering::Release); // 21
        // Release: pairs with the Acquire of line 12.
        self.b[usize::from(thread)].store(false, Ordering::Release); // 22
    }

    /// Runs figure 2: sets `p` if it is clear, and returns whether it was.
    #[inline(always)]
    pub fn test_and_set(self, thread: u8, p: &AtomicU32, fence: impl Fn(Before)) -> bool {
        self.enter(thread, fence);
        // Acquire: pairs with the Release in `clear`.
        let is_clear = p.load(Ordering::Acquire) == 0;
        if is_clear {
            // Relaxed: the next thread that reads it here enters after this one leaves.
            p.store(1, Ordering::Relaxed);
        }
        self.leave(thread);
        is_clear
    }
}

/// Clears `p` outside the critical section (figure 2). While `p` is set, only the holder writes it.
#[inline(always)]
pub fn clear(p: &AtomicU32) {
    // Release: pairs with the Acquire in `test_and_set`.
    p.store(0, Ordering::Release);
}
