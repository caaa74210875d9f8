//! Finding nodes that exited threads held (GC96, sections 2 and 5.1).
//!
//! A thread that exits inside an operation may leave a node that is in no list: one that it has
//! allocated and not linked, or unlinked and not freed. An audit claims the nodes that are in the
//! lists, and reclaims those that were not claimed for some time.
//!
//! Each operation that unlinks a node claims it before. Without that, a node that was in a list
//! during one audit, and unlinked just before the next one, would be taken for one that was out of
//! all lists all the time in between.
//!
//! The time counts until the audit starts. If it counted until the audit looks at the node, a node
//! that a thread links meanwhile, where the audit has been already, would be taken for one of an
//! exited thread, although its owner had it for less than the time.

use std::time::Duration;

use super::{Arrangement, List, Node};
use crate::nonblocking::Plain;
use crate::nonblocking::nodes::until_unchanged;
use crate::type_stable::Audit;

impl<K: Plain, V: Plain, A: Arrangement<K>> List<K, V, A> {
    /// Frees nodes that exited threads have left in no list: GC96's audit. Returns how many nodes
    /// are allocated, and how many of them were freed.
    ///
    /// A node is freed by the second audit that finds it in none of the lists, if `time` has passed
    /// since the first one. `siblings` are all other lists that [share](List::sibling) the memory.
    /// The node of an entry that a thread has [checked out](List::check_out) before it exited is
    /// freed after [`forget_checkout`](List::forget_checkout). If two audits run at the same time,
    /// both may count a node that one of them frees.
    ///
    /// Takes time in proportion to the nodes. Costs up to three atomic instructions for each, and
    /// makes the next operation that unlinks a node cost one more. Retried while the lists change,
    /// so it may starve. `time` is rounded up to milliseconds, and is one at least.
    ///
    /// ```
    /// use atomseq::nonblocking::List;
    /// use std::time::Duration;
    ///
    /// let list = List::<u64, u64>::try_with_limit(1)?;
    /// list.try_insert(1, 10).unwrap();
    /// // As if the thread had exited with the node.
    /// std::mem::forget(list.remove_to_change(&1));
    /// assert!(list.try_insert(2, 20).is_err());
    ///
    /// let time = Duration::from_millis(5);
    /// for _ in 0..2 {
    ///     // SAFETY: the only thread is here, and holds no entry that it will use.
    ///     unsafe { list.audit(&[], time) };
    ///     std::thread::sleep(2 * time);
    /// }
    /// list.try_insert(2, 20).unwrap();
    /// # Ok::<(), atomseq::type_stable::Error>(())
    /// ```
    ///
    /// # Safety
    ///
    /// * `siblings` contains every other list that shares this list's memory. There is no
    ///   [`IntoIter`](super::IntoIter) of such a list, and none is dropped before this returns.
    /// * Until this returns, no thread that continues has been inside one operation on these lists
    ///   for longer than `time`, even if it was stopped there. Another audit is such an operation,
    ///   and operations of handlers count as part of the interrupted one.
    /// * Nor has it held for longer than `time` a [`Removal`](super::Removal), or a
    ///   [`Checkout`](super::Checkout) that was forgotten. This time includes the operations by
    ///   which the thread got it and gives it back.
    ///
    /// Otherwise a thread might use a node that this has freed.
    pub unsafe fn audit(&self, siblings: &[&List<K, V, A>], time: Duration) -> Audit {
        let claim_all = || {
            for list in siblings.iter().chain([&self]) {
                list.chain.claim_all();
            }
        };
        let unmark = |node: &Node<K, V>| {
            // The mark of an exited thread. No list leads to the node, and this call owns it.
            until_unchanged(|| match self.chain.load(&node.changer) {
                0 => Ok(()),
                _ => {
                    let version = self.chain.versioned.begin();
                    self.chain.compare_exchange(version, (&node.changer, 0))
                }
            });
        };
        // SAFETY: a node that is found was in no list that `claim_all` has walked through, and was
        // claimed by no thread since an audit more than `time` before this one started. Each thread
        // that unlinks a node claims it before. So when this one started, a thread that owned the
        // node was inside the same operation, or held the same entry, for longer than `time`. The
        // caller promises that it does not continue then, so it does not link the node either.
        unsafe { self.chain.audit(time, claim_all, unmark) }
    }
}
