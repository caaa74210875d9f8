//! Guards, by which values stay.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;

use super::{Node, REMOVED, RefList};
use crate::nonblocking::nodes::until_unchanged;

/// A guard of a value in a [`RefList`], or of one that was removed since. Dropped, it lets the
/// value go (S92's `ReleaseNode`).
///
/// Costs one exchange of one word to drop.
pub struct Ref<'a, T: Send + Sync> {
    pub(super) list: &'a RefList<T>,
    pub(super) node: &'a Node<T>,
}

impl<'a, T: Send + Sync> Ref<'a, T> {
    /// The next value, if there is one (S92's `VisitNextNode`). This one's place counts also when
    /// it was removed.
    pub fn next(&self) -> Option<Ref<'a, T>> {
        self.list.visit(Some((self.node, false)), 1).0
    }

    /// The same, and lets this one go at once.
    pub fn into_next(self) -> Option<Ref<'a, T>> {
        self.move_on(1)
    }

    /// With so many guards of the next one, of which the caller gets one.
    pub(super) fn move_on(self, guards: u64) -> Option<Ref<'a, T>> {
        let this = ManuallyDrop::new(self);
        let (next, let_go) = this.list.visit(Some((this.node, true)), guards);
        if !let_go {
            drop(ManuallyDrop::into_inner(this));
        }
        next
    }

    /// Has it been removed from the list?
    pub fn is_removed(&self) -> bool {
        let ([next], _) = self.list.chain.object.snapshot([&self.node.next]);
        next == REMOVED
    }

    /// The value itself.
    ///
    /// # Errors
    ///
    /// The guard, while the value is in the list or somebody else has a guard of it.
    pub fn into_inner(self) -> Result<T, Ref<'a, T>> {
        let chain = &self.list.chain;
        let is_last = until_unchanged(|| {
            let version = chain.object.begin();
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
        // SAFETY: this call has just taken the count of a removed node to zero.
        Ok(unsafe { this.list.end(this.node) })
    }
}

impl<T: Send + Sync> Deref for Ref<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: written before the node came into the list, and there as long as this guard
        // counts.
        unsafe { (*self.node.value.get()).assume_init_ref() }
    }
}

impl<T: Send + Sync> Clone for Ref<'_, T> {
    /// Another guard of the same value.
    fn clone(&self) -> Self {
        let chain = &self.list.chain;
        until_unchanged(|| {
            let version = chain.object.begin();
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
