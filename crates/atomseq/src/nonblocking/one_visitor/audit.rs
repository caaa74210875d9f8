//! Finding what exited threads held: nodes that are in no list, and visits. `ref_list/audit.rs`
//! states how.

use std::time::Duration;

use super::{Node, OneVisitorList};
use crate::nonblocking::nodes::until_unchanged;
use crate::sync::Ordering;
use crate::type_stable::Audit;

impl<T: Send> OneVisitorList<T> {
    /// Frees nodes that exited threads held: GC96's audit. Returns how many nodes are allocated,
    /// and how many of them were freed.
    ///
    /// The second audit frees a node if `time` has passed since the first one:
    ///
    /// * A thread has exited in a visit of it: it is removed from the list.
    /// * A thread has exited inside an operation that inserts or frees it.
    ///
    /// The value is not dropped: the thread may have left it half changed. Costs and progress are
    /// those of [`RefList::audit`](super::super::RefList::audit).
    ///
    /// # Safety
    ///
    /// * Until this returns, no thread that continues has been in the same
    ///   [`Visit`](super::Visit), or inside one operation on this list, for longer than `time`,
    ///   even if it was stopped there. The time of a visit includes the operation that began it.
    ///   Operations of handlers are part of the interrupted one. A visit that was forgotten counts
    ///   as that of an exited thread, and so do the references into its value.
    /// * No other audit of this list runs at the same time.
    ///
    /// Otherwise a thread might use a node that this has freed.
    pub unsafe fn audit(&self, time: Duration) -> Audit {
        let mut freed = 0;
        let is_lost = |node: &Node<T>| {
            let is_lost = self.is_lost(node);
            freed += usize::from(is_lost);
            is_lost
        };
        // SAFETY: `is_lost` unlinks the node if it was in the list, in a visit that began before an
        // audit more than `time` before this one started. `claim_all` leaves no other node in the
        // list unclaimed. A node outside the list was not claimed since that audit, as it is by a
        // thread that unlinks it. So the thread in the visit, or the one that owns the node, has
        // been there for longer than `time`. The caller promises that it does not continue.
        let audit = unsafe { self.chain.audit_where(time, || self.claim_all(), is_lost) };
        Audit {
            unclaimed: freed,
            ..audit
        }
    }

    /// Claims all nodes in the list, except those whose visit is older than an audit.
    fn claim_all(&self) {
        let is_held = |node: &Node<T>| self.chain.load(&node.visitor) != 0;
        (self.chain).claim_all_but_seen(is_held, |node| &node.seen);
    }

    /// Returns whether an unclaimed node is in no list. Unlinks it before if it is in a visit that
    /// is older than an audit.
    fn is_lost(&self, node: &Node<T>) -> bool {
        until_unchanged(|| {
            let version = self.chain.versioned.begin();
            if self.chain.load(&node.visitor) == 0 {
                return self.chain.check(version).map(|()| true);
            }
            // Relaxed: as in `claim_all_but_seen`.
            if node.seen.load(Ordering::Relaxed) == 0 {
                return self.chain.check(version).map(|()| false);
            }
            self.unlink_visited(version, node).map(|()| true)
        })
    }
}
