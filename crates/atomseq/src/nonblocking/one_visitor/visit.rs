//! Visits, of one thread at a time.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use super::{Node, OneVisitorList};
use crate::nonblocking::NoMemory;
use crate::nonblocking::nodes::until_unchanged;

/// A visit of a value in a [`OneVisitorList`], which nobody else visits meanwhile. Dropped, it
/// ends.
pub struct Visit<'a, T: Send> {
    pub(super) list: &'a OneVisitorList<T>,
    pub(super) node: &'a Node<T>,
    pub(super) value: PhantomData<&'a mut T>,
}

impl<'a, T: Send> Visit<'a, T> {
    /// Visits the next value that nobody else visits, too.
    pub fn next(&self) -> Option<Visit<'a, T>> {
        self.list.visit_from(&self.node.next, None)
    }

    /// Goes on to the next value that nobody else visits, by one exchange.
    pub fn into_next(self) -> Option<Visit<'a, T>> {
        let this = ManuallyDrop::new(self);
        let next = this.list.visit_from(&this.node.next, Some(this.node));
        if next.is_none() {
            drop(ManuallyDrop::into_inner(this));
        }
        next
    }

    /// Inserts a value behind this one.
    ///
    /// # Errors
    ///
    /// [`NoMemory`], with the value.
    pub fn insert_behind(&self, value: T) -> Result<(), NoMemory<T>> {
        self.list.push_at(&self.node.next, value)
    }

    /// Removes the value from the list.
    pub fn remove(self) -> T {
        let this = ManuallyDrop::new(self);
        let (chain, node) = (&this.list.chain, this.node);
        until_unchanged(|| {
            let version = chain.object.begin();
            let is_it = |other: &Node<T>| std::ptr::eq(other, node);
            let link = chain.seek(version, &chain.head, is_it)?.link;
            let behind = chain.load(&node.next);
            chain.exchange(version, (link, behind), (&node.visitor, 0))
        });
        // SAFETY: just unlinked by its one visitor.
        unsafe { this.list.end(node) }
    }
}

impl<T: Send> Deref for Visit<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: written before the node came into the list, and this visit is the only one.
        unsafe { (*self.node.value.get()).assume_init_ref() }
    }
}

impl<T: Send> DerefMut for Visit<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { (*self.node.value.get()).assume_init_mut() }
    }
}

impl<T: Send> Drop for Visit<'_, T> {
    fn drop(&mut self) {
        let chain = &self.list.chain;
        until_unchanged(|| chain.compare_exchange(chain.object.begin(), (&self.node.visitor, 0)));
    }
}

impl<T: Send + fmt::Debug> fmt::Debug for Visit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}
