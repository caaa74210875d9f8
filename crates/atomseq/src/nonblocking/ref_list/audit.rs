//! Finding what exited threads held: nodes that are in no list, and guards (GC96, sections 2 and
//! 5.1).
//!
//! A thread that exits inside an operation may leave a node that it has allocated and not linked,
//! or unlinked and not freed. One that exits with a guard leaves a count that never returns to
//! zero, so its value is never dropped.
//!
//! An audit claims the nodes in the list, as that of a [`List`](crate::nonblocking::List) does,
//! with one exception. In a node with guards it notes that it has seen them. Each new guard erases
//! the note. If a later audit still finds the note, all guards are older, so it does not claim the
//! node. What was not claimed for long enough is recovered.

use std::time::Duration;

use super::{Node, REMOVED, RefList};
use crate::nonblocking::nodes::until_unchanged;
use crate::sync::Ordering;
use crate::type_stable::Audit;

/// What an audit has found an unclaimed node to be.
enum Found {
    /// In use, or in use again.
    InUse,
    /// In the list, with guards of exited threads, which were released.
    Released,
    /// As `Released`, removed, and therefore unlinked.
    Unlinked,
    /// In no list.
    Lost,
}

impl<T: Send + Sync> RefList<T> {
    /// Recovers what exited threads held: GC96's audit. Returns how many nodes are allocated, and
    /// how many of them were recovered.
    ///
    /// The second audit recovers a node if `time` has passed since the first one:
    ///
    /// * A thread has exited with guards of it: they are released, and if the value was removed, it
    ///   is dropped here. Each new guard postpones this to the second audit after it.
    /// * A thread has exited inside an operation that inserts or frees it: it is freed, and its
    ///   value is not dropped.
    ///
    /// Takes time in proportion to the nodes. Costs up to three atomic instructions for each, and
    /// makes the next operation that frees a node cost one more. Retried while the list changes, so
    /// it may starve. `time` is rounded up to milliseconds, and is one at least.
    ///
    /// ```
    /// use atomseq::nonblocking::RefList;
    /// use std::time::Duration;
    ///
    /// let names = RefList::try_with_limit(1)?;
    /// names.push_front(String::from("ada")).unwrap();
    /// // As if the thread had exited with the guard.
    /// std::mem::forget(names.pop_front());
    /// assert!(names.push_front(String::from("grace")).is_err());
    ///
    /// let time = Duration::from_millis(5);
    /// for _ in 0..2 {
    ///     // SAFETY: the only thread is here, and holds no guard.
    ///     unsafe { names.audit(time) };
    ///     std::thread::sleep(2 * time);
    /// }
    /// names.push_front(String::from("grace")).unwrap();
    /// # Ok::<(), atomseq::type_stable::Error>(())
    /// ```
    ///
    /// # Safety
    ///
    /// * Until this returns, no thread that continues has held the same [`Ref`](super::Ref), or
    ///   been inside one operation on this list, for longer than `time`, even if it was stopped
    ///   there. The time of a guard includes the operation that acquired it. Operations of handlers
    ///   are part of the interrupted one. To keep a value for longer, [`clone`](Clone::clone) the
    ///   guard between two audits, before the old one is dropped. A guard that was forgotten counts
    ///   as that of an exited thread, and so do the references into its value.
    /// * No other audit of this list runs at the same time.
    ///
    /// Otherwise a thread might use a value that was dropped.
    pub unsafe fn audit(&self, time: Duration) -> Audit {
        let mut recovered = 0;
        let is_lost = |node: &Node<T>| {
            let found = self.recover(node);
            recovered += usize::from(!matches!(found, Found::InUse));
            if matches!(found, Found::Unlinked) {
                // SAFETY: this call alone has just unlinked the node. The caller promises that the
                // threads of its guards do not continue.
                drop(unsafe { self.end(node) });
            }
            matches!(found, Found::Lost)
        };
        // SAFETY: a node that is lost has no guard. So it was in the list in no state in which
        // `claim_all` leaves it unclaimed: such a node has guards, all older than an audit more
        // than `time` before this one started. The caller promises that their threads do not
        // continue, so they do not release them. Nor was it claimed since that audit, as it is by a
        // thread that unlinks it. So a thread that owns it was inside one operation for longer than
        // `time` when this one started, and does not continue.
        let audit = unsafe { self.chain.audit_where(time, || self.claim_all(), is_lost) };
        Audit {
            unclaimed: recovered,
            ..audit
        }
    }

    /// Claims all nodes in the list, except those whose guards are all older than an audit.
    fn claim_all(&self) {
        let is_held = |node: &Node<T>| self.chain.load(&node.guards) & !REMOVED != 0;
        (self.chain).claim_all_but_seen(is_held, |node| &node.seen);
    }

    /// Releases the guards of an unclaimed node if all are older than an audit.
    fn recover(&self, node: &Node<T>) -> Found {
        until_unchanged(|| {
            let version = self.chain.versioned.begin();
            let guards = self.chain.load(&node.guards);
            // Relaxed: as in `claim_all_but_seen`.
            let is_seen = node.seen.load(Ordering::Relaxed) != 0;
            if guards & !REMOVED == 0 || !is_seen {
                self.chain.check(version)?;
                return Ok(match guards & !REMOVED {
                    0 => Found::Lost,
                    _ => Found::InUse,
                });
            }
            if guards & REMOVED != 0 {
                self.unlink(version, node)?;
                return Ok(Found::Unlinked);
            }
            self.chain.compare_exchange(version, (&node.guards, 0))?;
            Ok(Found::Released)
        })
    }
}
