//! Guards, which keep values alive.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use super::{Node, NotInserted, REMOVED, RefList};
use crate::nonblocking::nodes::until_unchanged;

/// A guard of a value that is, or was, in a [`RefList`]. The value stays alive as long as the
/// guard.
///
/// Dropping it (`ReleaseNode` in S92) costs one change of one word: one atomic instruction under
/// OS-assisted DCAS, four under k-CAS. Dropping the last guard of a removed value takes a search
/// for its place, and one change of two words.
pub struct Ref<'a, T: Send + Sync> {
    pub(super) list: &'a RefList<T>,
    pub(super) node: &'a Node<T>,
}

impl<'a, T: Send + Sync> Ref<'a, T> {
    /// Returns a guard of the next value, if there is one: `VisitNextNode` in S92. If this value
    /// was removed, the next one is that behind its place.
    pub fn next(&self) -> Option<Ref<'a, T>> {
        self.list.visit(Some((self.node, false)), 1).0
    }

    /// Moves to the next value, and releases this one in the same change, unless this is the last
    /// guard of a removed value.
    pub fn into_next(self) -> Option<Ref<'a, T>> {
        self.move_on(1)
    }

    /// Moves to the next value with this many guards of it, and returns one of them.
    pub(super) fn move_on(self, guards: u64) -> Option<Ref<'a, T>> {
        let this = ManuallyDrop::new(self);
        let (next, released) = this.list.visit(Some((this.node, true)), guards);
        if !released {
            // The second guard, which the caller builds, must be released if the destructor of this
            // value panics.
            let another = next.as_ref().filter(|_| guards > 1);
            let another = another.map(|next| Ref { ..*next });
            drop(ManuallyDrop::into_inner(this));
            std::mem::forget(another);
        }
        next
    }

    /// Inserts a value behind this one. Takes constant time, and one change of two words.
    ///
    /// ```
    /// use atomseq::nonblocking::{RefList, Refused};
    ///
    /// let stops = RefList::from_iter(["terminus", "depot"]);
    /// let depot = stops.front().unwrap();
    /// depot.insert_behind("market").unwrap();
    /// let names = Vec::from_iter(stops.iter().map(|stop| *stop));
    /// assert_eq!(names, ["depot", "market", "terminus"]);
    ///
    /// stops.remove(&depot);
    /// let refused = depot.insert_behind("harbour").unwrap_err();
    /// assert_eq!((refused.value, refused.reason), ("harbour", Refused::Absent));
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotInserted`], which returns the value:
    /// [`Refused::Absent`](crate::nonblocking::Refused::Absent) if this value has been removed from
    /// the list, [`Refused::Memory`](crate::nonblocking::Refused::Memory).
    pub fn insert_behind(&self, value: T) -> Result<(), NotInserted<T>> {
        self.list.insert_behind(self.node, value)
    }

    /// Returns whether the value has been removed from the list.
    pub fn is_removed(&self) -> bool {
        let ([guards], _) = self.list.chain.versioned.snapshot([&self.node.guards]);
        guards & REMOVED != 0
    }

    /// Returns the value itself.
    ///
    /// # Errors
    ///
    /// The guard, if the value is in the list or has another guard.
    pub fn into_inner(self) -> Result<T, Ref<'a, T>> {
        let chain = &self.list.chain;
        let is_last = until_unchanged(|| {
            let version = chain.versioned.begin();
            if chain.load(&self.node.guards) != REMOVED + 1 {
                return chain.check(version).map(|()| false);
            }
            self.list.unlink(version, self.node).map(|()| true)
        });
        if !is_last {
            return Err(self);
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: this call alone has just unlinked the node.
        Ok(unsafe { this.list.end(this.node) })
    }
}

impl<T: Send + Sync> Deref for Ref<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value was written before the node was linked, and stays initialized as long
        // as this guard counts.
        unsafe { (*self.node.value.get()).assume_init_ref() }
    }
}

impl<T: Send + Sync> Clone for Ref<'_, T> {
    /// Returns another guard of the same value.
    fn clone(&self) -> Self {
        let chain = &self.list.chain;
        until_unchanged(|| {
            let version = chain.versioned.begin();
            chain.compare_exchange(version, self.list.one_more(self.node, 1))
        });
        Ref { ..*self }
    }
}

impl<T: Send + Sync> Drop for Ref<'_, T> {
    fn drop(&mut self) {
        self.list.release(self.node);
    }
}

impl<T: Send + Sync + fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}
