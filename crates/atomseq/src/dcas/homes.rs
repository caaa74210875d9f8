//! Whose home a block of descriptors is: the thread's that takes them without atomic instructions,
//! until it moves out or has ended.
//!
//! ```text
//! at home     user = me; so nobody else changes it, nor takes a descriptor
//! moving out  user: me -> nobody
//! moving in   user: nobody, or a thread that has ended -> me
//! reserving   user: nobody, or a thread that has ended -> shared or kept, for good
//! ```
//!
//! `user` also counts who has moved in. Else whoever found that a thread has ended, and is stopped
//! before it moves in, would throw out a later thread of the same number, which has moved in
//! meanwhile.
//!
//! Nobody is thrown out: a thread that sleeps keeps its home. Whether one has ended, the kernel
//! says; what it did is over by then. In a child of `fork` nobody can say so of its parent's
//! threads: what they had stays the home of the one that goes on, or nobody's, in the child's own
//! children too.

use crate::platform;
use crate::sync::{AtomicU64, Ordering};

/// Who is at home, by a [name](platform::thread_name), and above that how many have moved in. All
/// zero is nobody's.
pub(super) struct Tenancy {
    user: AtomicU64,
}

const NOBODY: u64 = 0;

const NAME: u64 = (1 << platform::NAME_BITS) - 1;

/// One more has moved in.
const MOVE: u64 = NAME + 1;

/// Whoever takes a descriptor does so by an atomic instruction. No thread has a name so low.
pub(super) const SHARED: u64 = 1;

/// Kept for good.
pub(super) const KEPT: u64 = 2;

impl Tenancy {
    #[allow(dead_code, reason = "for models: the library's are made as zeros")]
    pub(super) fn new() -> Tenancy {
        Tenancy {
            user: AtomicU64::new(NOBODY),
        }
    }

    #[inline(always)]
    pub(super) fn is(&self, tenant: u64) -> bool {
        // Relaxed: nobody else makes it this thread's, nor takes it away; and what is reserved
        // stays so.
        self.user.load(Ordering::Relaxed) == tenant
    }

    /// Moves in if nobody is there, or somebody who has ended. Returns as whom.
    pub(super) fn move_in(&self, me: u64) -> Option<u64> {
        // Mine already: of a thread that had this name before, or a handler moved in that has
        // interrupted this thread.
        let before = self.if_vacant(me)?;
        let tenant = before.wrapping_add(MOVE) & !NAME | me;
        self.becomes(before, tenant).then_some(tenant)
    }

    /// Makes it [`SHARED`] or [`KEPT`] for good, if nobody is there, or somebody who has ended.
    pub(super) fn reserve(&self, as_what: u64) -> bool {
        let before = self.if_vacant(NOBODY);
        before.is_some_and(|before| self.becomes(before, as_what))
    }

    /// What `user` is, unless it is the home of a thread other than this one that may go on, or
    /// reserved.
    fn if_vacant(&self, me: u64) -> Option<u64> {
        // Acquire: pairs with the release of whoever is there: the kernel is asked about that
        // thread, not an earlier one of its number.
        let before = self.user.load(Ordering::Acquire);
        let user = before & NAME;
        let is_vacant = user == NOBODY || user == me || platform::has_ended(user);
        is_vacant.then_some(before)
    }

    /// Leaves it to whoever wants it.
    pub(super) fn move_out(&self, tenant: u64) {
        self.becomes(tenant, tenant & !NAME | NOBODY);
    }

    fn becomes(&self, from: u64, to: u64) -> bool {
        // Release and acquire: what the last one at home did comes before what the next one does.
        // Of one that has ended, the kernel sees to that.
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        self.user
            .compare_exchange(from, to, success, failure)
            .is_ok()
    }
}
