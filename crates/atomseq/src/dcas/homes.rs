//! The thread that a block of descriptors is the home of. Only this thread takes descriptors there,
//! without atomic instructions, until it moves out or exits.
//!
//! ```text
//! at home      user = me; no other thread changes it, or takes a descriptor
//! moving out   user: me -> none
//! moving in    user: none, or an exited thread -> me
//! reserving    user: none, or an exited thread -> shared or kept, permanently
//! ```
//!
//! `user` also counts how many times a thread has moved in. Without the count, a thread that finds
//! that the tenant has exited, and is stopped before it moves in, could later evict a new tenant
//! with the same thread name.
//!
//! A thread is not evicted while it lives: one that sleeps keeps its home. The kernel reports
//! whether a thread has exited; its accesses are over by then. In the child of a `fork`, the kernel
//! knows nothing of the parent's threads. So the home of the forking thread stays its home there,
//! and those of the other threads stay unused, in the child's own children too.

use crate::platform;
use crate::sync::{AtomicU64, Ordering};

/// The tenant word: the [name](platform::thread_name) of the thread whose home this is, and above
/// it how many times a thread has moved in. All zeros means no thread.
pub(super) struct Tenancy {
    user: AtomicU64,
}

/// The home of no thread.
const NOBODY: u64 = 0;

/// The bits of the thread's name.
const NAME: u64 = (1 << platform::NAME_BITS) - 1;

/// The unit of the count above the name.
const MOVE: u64 = NAME + 1;

/// Reserved permanently: threads take descriptors by an atomic instruction. No thread has so low a
/// name.
pub(super) const SHARED: u64 = 1;

/// Reserved permanently, for measurements.
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
        // Relaxed: no other thread makes this the calling thread's home or takes it away, and a
        // reservation is permanent.
        self.user.load(Ordering::Relaxed) == tenant
    }

    /// Moves in if no live thread lives here. Returns the new tenant word.
    pub(super) fn move_in(&self, me: u64) -> Option<u64> {
        // It may already be this thread's: a former thread had the same name, or a handler that
        // interrupted this thread moved in.
        let before = self.if_vacant(me)?;
        let tenant = before.wrapping_add(MOVE) & !NAME | me;
        self.becomes(before, tenant).then_some(tenant)
    }

    /// Reserves the block permanently as [`SHARED`] or [`KEPT`], if no live thread lives here.
    pub(super) fn reserve(&self, as_what: u64) -> bool {
        let before = self.if_vacant(NOBODY);
        before.is_some_and(|before| self.becomes(before, as_what))
    }

    /// Returns the tenant word if the block is free: no thread lives here, or this one does, or the
    /// tenant has exited.
    fn if_vacant(&self, me: u64) -> Option<u64> {
        // Acquire: pairs with the release of the tenant that moved in, so that the kernel is asked
        // about that thread and not about an earlier one of the same name.
        let before = self.user.load(Ordering::Acquire);
        let user = before & NAME;
        let is_vacant = user == NOBODY || user == me || platform::has_ended(user);
        is_vacant.then_some(before)
    }

    /// Leaves the block to other threads.
    pub(super) fn move_out(&self, tenant: u64) {
        self.becomes(tenant, tenant & !NAME | NOBODY);
    }

    fn becomes(&self, from: u64, to: u64) -> bool {
        // Acquire and release pair with each other: the accesses of the last tenant come before
        // those of the next one. For an exited tenant, the kernel orders them.
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        self.user
            .compare_exchange(from, to, success, failure)
            .is_ok()
    }
}
