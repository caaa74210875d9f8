//! Entries that are removed, modified and reinserted, and absent meanwhile (GC96, section 5.1).

use std::fmt;

use super::{Arrangement, CheckedOut, List, Node, Refused};
use crate::nonblocking::Plain;
use crate::nonblocking::nodes::until_unchanged;
use crate::sync::{Ordering, fence};
use crate::type_stable::Allocated;

impl<K: Plain, V: Plain, A: Arrangement<K>> List<K, V, A> {
    /// Removes an entry whose node the caller modifies and [reinserts](Removal::reinsert) (GC96,
    /// section 5.1). Returns `None` if the key is not in the list.
    ///
    /// Removing and reinserting are one change each, at one atomic instruction under OS-assisted
    /// DCAS, and need no memory: the node is kept, as that of `extract` and `insert` of C++'s
    /// `std::map` is. So an entry moves to another key without an operation that may fail for lack
    /// of memory.
    ///
    /// Meanwhile the key **is absent**, unlike that of an entry that is [checked
    /// out](List::check_out): other threads do not find it, and may insert it. Use this where
    /// operations tolerate the absence; GC96's example is a signal that a thread misses while it is
    /// not in the list. A signal handler must not retry until the key is there again, because it
    /// may have interrupted the thread that has removed it.
    ///
    /// ```
    /// use atomseq::nonblocking::{CheckedOut, List};
    ///
    /// let deadlines = List::from_iter([(30, 'a' as u32), (50, 'b' as u32)]);
    /// let removal = deadlines.remove_to_change(&30)?.unwrap();
    /// assert_eq!(deadlines.get(&30), Ok(None));
    /// let value = removal.value();
    /// removal.reinsert(70, value).unwrap();
    /// assert_eq!(deadlines.snapshot(), [(50, 'b' as u32), (70, 'a' as u32)]);
    /// # Ok::<(), CheckedOut>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`CheckedOut`]: the entry is checked out, and was not removed.
    pub fn remove_to_change(&self, key: &K) -> Result<Option<Removal<'_, K, V, A>>, CheckedOut> {
        until_unchanged(|| {
            let version = self.chain.versioned.begin();
            let place = self.place(version, key)?;
            let Some(node) = place.node else {
                return self.chain.check(version).map(|()| Ok(None));
            };
            if let Err(checked_out) = self.checked_in(node) {
                return self.chain.check(version).map(|()| Err(checked_out));
            }
            let behind = self.chain.load(&node.next);
            let (key, value) = (node.key.load(), node.value.load());
            self.chain.claim(node);
            self.chain.compare_exchange(version, (place.link, behind))?;
            Ok(Ok(Some(Removal {
                list: self,
                // SAFETY: this call alone has just unlinked the node, so it owns it.
                node: unsafe { self.chain.adopt(node) },
                key,
                value,
            })))
        })
    }

    /// Returns why a node may not be inserted, given the node that has its key.
    pub(super) fn refusal(&self, found: Option<&Node<K, V>>) -> Option<Refused> {
        let node = found.filter(|_| !A::NEW_ONES_FIRST)?;
        let present = |()| Refused::Present;
        Some(self.checked_in(node).map_or_else(Refused::from, present))
    }
}

/// An entry that was [removed to be changed](List::remove_to_change). Dropping it frees its node;
/// the entry remains removed.
#[must_use = "dropped, it does not come back"]
pub struct Removal<'a, K: Plain, V: Plain, A: Arrangement<K>> {
    list: &'a List<K, V, A>,
    node: Allocated<'a, Node<K, V>>,
    key: K,
    value: V,
}

impl<'a, K: Plain, V: Plain, A: Arrangement<K>> Removal<'a, K, V, A> {
    /// Returns the key that the entry had.
    pub fn key(&self) -> K {
        self.key
    }

    /// Returns the value that the entry had.
    pub fn value(&self) -> V {
        self.value
    }

    /// Inserts the entry with this key and value, at its place; in an unordered list, at the front.
    ///
    /// # Errors
    ///
    /// [`NotReinserted`], which returns the entry, still removed, with the reason
    /// [`Refused::Present`] or [`Refused::CheckedOut`]: the key is in the list, and may not repeat.
    pub fn reinsert(self, key: K, value: V) -> Result<(), NotReinserted<'a, K, V, A>> {
        let (list, node) = (self.list, &self.node);
        // Release fence: orders the change that unlinked the node before the stores below; pairs
        // with the acquire fence in `VersionedWords::is_still`. It is here because another thread
        // may have unlinked the node.
        fence(Ordering::Release);
        node.key.store(key);
        node.value.store(value);
        let linked = until_unchanged(|| {
            let version = list.chain.versioned.begin();
            let place = list.place(version, &key)?;
            if let Some(refused) = list.refusal(place.node) {
                return list.chain.check(version).map(|()| Err(refused));
            }
            let link = match A::NEW_ONES_FIRST {
                true => list.chain.head(),
                false => place.link,
            };
            list.link(version, link, node).map(Ok)
        });
        match linked {
            Ok(()) => {
                // The list owns it.
                self.node.into_raw();
                Ok(())
            }
            Err(reason) => Err(NotReinserted {
                removal: self,
                reason,
            }),
        }
    }
}

/// Why an entry was not [reinserted](Removal::reinsert). It returns the entry, which may be
/// reinserted under another key.
pub struct NotReinserted<'a, K: Plain, V: Plain, A: Arrangement<K>> {
    /// The entry, as it was removed.
    pub removal: Removal<'a, K, V, A>,
    /// Why it was not reinserted.
    pub reason: Refused,
}

impl<K: Plain, V: Plain, A: Arrangement<K>> fmt::Display for NotReinserted<'_, K, V, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<K: Plain, V: Plain, A: Arrangement<K>> fmt::Debug for NotReinserted<'_, K, V, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotReinserted")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<K: Plain, V: Plain, A: Arrangement<K>> std::error::Error for NotReinserted<'_, K, V, A> {}

impl<K: Plain + fmt::Debug, V: Plain + fmt::Debug, A: Arrangement<K>> fmt::Debug
    for Removal<'_, K, V, A>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Removal")
            .field("key", &self.key)
            .field("value", &self.value)
            .finish_non_exhaustive()
    }
}
