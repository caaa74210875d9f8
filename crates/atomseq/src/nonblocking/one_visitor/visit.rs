//! The guard of a visit.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use super::{Node, OneVisitorList};
use crate::nonblocking::NoMemory;
use crate::nonblocking::nodes::until_unchanged;

/// A visit of a value in a [`OneVisitorList`], during which no other thread visits it. Dropping it
/// ends the visit, at one atomic instruction under OS-assisted DCAS.
pub struct Visit<'a, T: Send> {
    pub(super) list: &'a OneVisitorList<T>,
    pub(super) node: &'a Node<T>,
    pub(super) value: PhantomData<&'a mut T>,
}

impl<'a, T: Send> Visit<'a, T> {
    /// Visits the next value that has no visitor, in addition to this one.
    pub fn next(&self) -> Option<Visit<'a, T>> {
        self.list.visit_from(&self.node.next, None)
    }

    /// Moves to the next value that has no visitor, by one change. Ends this visit even if there is
    /// none.
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
    /// [`NoMemory`], which returns the value.
    pub fn insert_behind(&self, value: T) -> Result<(), NoMemory<T>> {
        self.list.push_at(&self.node.next, value)
    }

    /// Removes the value from the list and returns it. Takes time in proportion to the values
    /// before it.
    pub fn remove(self) -> T {
        let this = ManuallyDrop::new(self);
        let (chain, node) = (&this.list.chain, this.node);
        until_unchanged(|| this.list.unlink_visited(chain.versioned.begin(), node));
        // SAFETY: this call alone has unlinked the node, as its only visitor.
        unsafe { this.list.end(node) }
    }
}

impl<T: Send> Deref for Visit<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value was written before the node was linked, and this visit is the only one.
        unsafe { (*self.node.value.get()).assume_init_ref() }
    }
}

impl<T: Send> DerefMut for Visit<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the value was written before the node was linked, this visit is the only one, and
        // it is borrowed exclusively.
        unsafe { (*self.node.value.get()).assume_init_mut() }
    }
}

impl<T: Send> Drop for Visit<'_, T> {
    fn drop(&mut self) {
        let chain = &self.list.chain;
        until_unchanged(|| {
            chain.compare_exchange(chain.versioned.begin(), (&self.node.visitor, 0))
        });
    }
}

impl<T: Send + fmt::Debug> fmt::Debug for Visit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}
