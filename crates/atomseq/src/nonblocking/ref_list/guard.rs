//! Guards, which keep values alive.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use super::{Node, REMOVED, RefList};
use crate::nonblocking::nodes::until_unchanged;

/// A guard of a value that is, or was, in a [`RefList`]. The value stays alive as long as the
/// guard.
///
/// Dropping it (`ReleaseNode` in S92) costs one change of one word: one atomic instruction under
/// OS-assisted DCAS, four under k-CAS.
pub struct Ref<'a, T: Send + Sync> {
    pub(super) list: &'a RefList<T>,
    pub(super) node: &'a Node<T>,
}

impl<'a, T: Send + Sync> Ref<'a, T> {
    /// Returns a guard of the next value, if there is one: `VisitNextNode` in S92. If this value
    /// was removed, the next one is that behind its former place.
    pub fn next(&self) -> Option<Ref<'a, T>> {
        self.list.visit(Some((self.node, false)), 1).0
    }

    /// Moves to the next value, and releases this one in the same change.
    pub fn into_next(self) -> Option<Ref<'a, T>> {
        self.move_on(1)
    }

    /// Moves to the next value with this many guards of it, and returns one of them.
    pub(super) fn move_on(self, guards: u64) -> Option<Ref<'a, T>> {
        let this = ManuallyDrop::new(self);
        let (next, released) = this.list.visit(Some((this.node, true)), guards);
        if !released {
            drop(ManuallyDrop::into_inner(this));
        }
        next
    }

    /// Returns whether the value has been removed from the list.
    pub fn is_removed(&self) -> bool {
        let ([next], _) = self.list.chain.versioned.snapshot([&self.node.next]);
        next == REMOVED
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
            if chain.load(&self.node.next) != REMOVED || chain.load(&self.node.count) != 1 {
                return chain.check(version).map(|()| false);
            }
            chain.compare_exchange(version, (&self.node.count, 0))?;
            Ok(true)
        });
        if !is_last {
            return Err(self);
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: this call alone has just taken the count of a removed node to zero.
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
            let more = chain.load(&self.node.count) + 1;
            chain.compare_exchange(version, (&self.node.count, more))
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
