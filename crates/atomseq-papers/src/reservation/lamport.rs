//! Lamport's fast mutual exclusion algorithm (B91 figure 1), by its line numbers, and the
//! test-and-set inside it (figure 2).
//!
//! ```text
//! x   who asked last: the reservation        y   who was let in last, or 0: the owner
//! b   a flag a thread: it is between asking and having been refused, or inside
//!
//! alone    1 2 | 3 9 | 10    19    21 22      | are the fences
//! ```
//!
//! The order of the store of `x` and the load of `y`, and of the store of `y` and the load of `x`,
//! is what keeps two threads from both being let in. Processors turn a store and a load behind it
//! around, so a fence stands between them; on one CPU the thread itself sees its accesses in order,
//! and all others through a context switch.
//!
//! The model checker in `verify/` compiles this file a second time.

use crate::sync::{AtomicBool, AtomicU32, Ordering, relinquish};

/// The words of one instance, for threads numbered from 0 to `N - 1`. In `x` and `y` a thread is
/// its number plus one.
#[derive(Clone, Copy)]
pub struct Words<'a, const N: usize> {
    pub x: &'a AtomicU32,
    pub y: &'a AtomicU32,
    pub b: &'a [AtomicBool; N],
}

/// Which of the two places a fence stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Between the lines 2 and 3.
    Contention,
    /// Between the lines 9 and 10.
    Collision,
}

impl<const N: usize> Words<'_, N> {
    /// Lines 1 to 18: returns when this thread may go into the critical section.
    #[inline(always)]
    pub fn enter(self, thread: u8, fence: impl Fn(Before)) {
        let own = u32::from(thread) + 1;
        loop {
            // Relaxed: the fence orders them before the load of `y`.
            self.b[usize::from(thread)].store(true, Ordering::Relaxed); // 1
            self.x.store(own, Ordering::Relaxed); // 2
            fence(Before::Contention);
            // Acquire: pairs with the Release in `leave`.
            if self.y.load(Ordering::Acquire) != 0 {
                self.contended(thread); // 4, 5
                continue; // 6
            }
            // Relaxed: the fence orders it before the load of `x`.
            self.y.store(own, Ordering::Relaxed); // 9
            fence(Before::Collision);
            // Relaxed: it tells who asked, and no more.
            if self.x.load(Ordering::Relaxed) == own || self.is_let_in_after_collision(thread) {
                return;
            }
        }
    }

    /// Lines 4 and 5.
    #[cold]
    fn contended(self, thread: u8) {
        // Release: pairs with the Acquire of line 12.
        self.b[usize::from(thread)].store(false, Ordering::Release); // 4
        self.wait_for_leave(); // 5
    }

    /// Lines 11 to 14. Of all threads that found `y` clear, the last to write it is let in, once
    /// all of them have written.
    #[cold]
    fn is_let_in_after_collision(self, thread: u8) -> bool {
        // Release: pairs with the Acquire of line 12, so that whoever sees it sees our `y` as well.
        self.b[usize::from(thread)].store(false, Ordering::Release); // 11
        for other in self.b {
            // Acquire: pairs with the Release of the lines 4, 11 and 22.
            while other.load(Ordering::Acquire) {
                relinquish(); // 12
            }
        }
        // Relaxed: what others wrote before they lowered their flags has been acquired.
        if self.y.load(Ordering::Relaxed) == u32::from(thread) + 1 {
            return true; // 13
        }
        self.wait_for_leave(); // 14
        false // 15
    }

    /// `await y = 0`.
    fn wait_for_leave(self) {
        // Relaxed: line 3 looks again.
        while self.y.load(Ordering::Relaxed) != 0 {
            relinquish();
        }
    }

    /// Lines 21 and 22.
    #[inline(always)]
    pub fn leave(self, thread: u8) {
        // In this order: whoever waits for the flag in line 12 must not find its own name in `y`
        // afterwards. Release: pairs with the Acquire of line 3.
        self.y.store(0, Ordering::Release); // 21
        // Release: pairs with the Acquire of line 12.
        self.b[usize::from(thread)].store(false, Ordering::Release); // 22
    }

    /// Figure 2: sets `p` if it is clear, and was it?
    #[inline(always)]
    pub fn test_and_set(self, thread: u8, p: &AtomicU32, fence: impl Fn(Before)) -> bool {
        self.enter(thread, fence);
        // Acquire: pairs with the Release in `clear`.
        let is_clear = p.load(Ordering::Acquire) == 0;
        if is_clear {
            // Relaxed: who looks at it next is inside after us.
            p.store(1, Ordering::Relaxed);
        }
        self.leave(thread);
        is_clear
    }
}

/// Figure 2: clears `p`, outside. While it is set, nobody else writes it.
#[inline(always)]
pub fn clear(p: &AtomicU32) {
    // Release: pairs with the Acquire in `test_and_set`.
    p.store(0, Ordering::Release);
}
