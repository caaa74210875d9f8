//! Whose home a block of descriptors is: the thread's that takes them without atomic instructions, until another thread moves in.
//!
//! ```text
//! at home    inside = 1; is it still mine?; take a descriptor; inside = 0
//! moving in  user: theirs, suspected -> mine; barrier on all CPUs; is inside 0? If not, it is nobody's
//! ```
//!
//! At home a processor may look at `user` before others see `inside`; so whoever moves in has a barrier made on all of them. A thread
//! that was not yet inside at the barrier finds out that it has lost its home; of one that was, `inside` tells. Two that move in
//! one after the other see each other in `user`.
//!
//! `inside` is left alone by a thread that has lost its home: the next one may be inside already. Then, or if a thread is ended
//! inside, nobody moves in again until the one at home has been inside once more.

use crate::platform;
use crate::sync::{AtomicUsize, Ordering, compiler_fence};

/// Who is at home, by a number of their own, a multiple of 8; nobody is 0.
pub(super) struct Tenancy {
    user: AtomicUsize,
    inside: AtomicUsize,
}

/// Added to the user's number by whoever has looked in.
const SUSPECTED: usize = 1;

/// Instead of a user: nobody moves in.
const RESERVED: usize = 2;

/// Whoever takes a descriptor does so by an atomic instruction.
pub(super) const SHARED: usize = RESERVED;

/// Kept for good.
pub(super) const KEPT: usize = RESERVED | 4;

impl Tenancy {
    #[allow(dead_code, reason = "for models: the library's are made as zeros")]
    pub(super) fn new() -> Tenancy {
        Tenancy {
            user: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
        }
    }

    /// Begins to take a descriptor; `false`: this is not, or no longer, this thread's home, or somebody has looked in.
    ///
    /// Not called again by the thread, nor by its handlers, before [`leave`](Tenancy::leave).
    #[inline(always)]
    pub(super) fn enter(&self, me: usize) -> bool {
        // Relaxed: what counts is the look below.
        if self.user.load(Ordering::Relaxed) != me {
            return false;
        }
        self.inside.store(1, Ordering::Relaxed);
        // Pairs with the barrier of whoever moves in.
        compiler_fence(Ordering::SeqCst);
        self.user.load(Ordering::Relaxed) == me
    }

    /// Ends it.
    #[inline(always)]
    pub(super) fn leave(&self) {
        // Release: pairs with the acquire of whoever moves in.
        self.inside.store(0, Ordering::Release);
    }

    /// Moves in if nobody has been at home since the last look; else this was a look.
    pub(super) fn move_in(&self, me: usize) -> bool {
        match self.user.load(Ordering::Relaxed) {
            user if user & RESERVED != 0 => false,
            user if user == 0 || user & SUSPECTED != 0 => self.changes_hands(user, me),
            user => {
                self.becomes(user, user | SUSPECTED);
                false
            }
        }
    }

    /// Makes it [`SHARED`] or [`KEPT`] for good, if it is nobody's.
    pub(super) fn reserve(&self, as_what: usize) -> bool {
        match platform::can_order_all() {
            true => self.changes_hands(0, as_what),
            // Nobody is at home anywhere.
            false => self.becomes(0, as_what),
        }
    }

    #[inline(always)]
    pub(super) fn is(&self, reserved: usize) -> bool {
        self.user.load(Ordering::Relaxed) == reserved
    }

    fn changes_hands(&self, from: usize, to: usize) -> bool {
        if !self.becomes(from, to) {
            return false;
        }
        platform::barrier();
        // Acquire: pairs with the release of whoever was inside last.
        let empty = self.inside.load(Ordering::Acquire) == 0;
        if !empty {
            self.becomes(to, 0);
        }
        empty
    }

    /// Was it only that somebody has looked in? Then this thread is at home again.
    pub(super) fn is_back(&self, me: usize) -> bool {
        self.becomes(me | SUSPECTED, me)
    }

    /// Leaves it to whoever wants it.
    pub(super) fn move_out(&self, me: usize) {
        self.becomes(me, 0);
    }

    fn becomes(&self, from: usize, to: usize) -> bool {
        // Relaxed: `inside` says when what was done here is over, and the barrier who may go on.
        self.user
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}
