//! The error of insertion, the iterator, and the traits of collections.

use std::fmt;

use super::{Ref, RefList};
use crate::or_panic::OrPanic;
use crate::type_stable;

/// The error of an insertion without memory for a node, or at the limit. It returns the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NoMemory<T> {
    /// The value that was not inserted.
    pub value: T,
    /// Why it was not inserted.
    pub reason: type_stable::Error,
}

impl<T> fmt::Display for NoMemory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<T> fmt::Debug for NoMemory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoMemory")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<T> std::error::Error for NoMemory<T> {}

/// An iterator over guards of a list's values: see [`RefList::iter`].
pub struct RefIter<'a, T: Send + Sync> {
    pub(super) list: &'a RefList<T>,
    /// The iterator's own guard of the value that came last.
    pub(super) last: Option<Ref<'a, T>>,
    pub(super) ended: bool,
}

impl<'a, T: Send + Sync> Iterator for RefIter<'a, T> {
    type Item = Ref<'a, T>;

    fn next(&mut self) -> Option<Ref<'a, T>> {
        if self.ended {
            return None;
        }
        // If the destructor of the last value panics, the iterator has ended.
        self.ended = true;
        // Acquires two guards at once; one stays here.
        let next = match self.last.take() {
            None => self.list.visit(None, 2).0,
            Some(last) => last.move_on(2),
        };
        self.ended = next.is_none();
        self.last = next.as_ref().map(|next| Ref {
            list: next.list,
            node: next.node,
        });
        next
    }
}

impl<T: Send + Sync> std::iter::FusedIterator for RefIter<'_, T> {}

impl<T: Send + Sync + fmt::Debug> fmt::Debug for RefIter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefIter")
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

impl<'a, T: Send + Sync> IntoIterator for &'a RefList<T> {
    type Item = Ref<'a, T>;
    type IntoIter = RefIter<'a, T>;

    fn into_iter(self) -> RefIter<'a, T> {
        self.iter()
    }
}

impl<T: Send + Sync> Extend<T> for RefList<T> {
    /// Inserts each value at the front.
    ///
    /// # Panics
    ///
    /// If there is no memory, or the limit is reached.
    #[track_caller]
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        for value in values {
            // Panics, as other collections do that cannot grow.
            self.push_front(value).or_panic();
        }
    }
}

impl<T: Send + Sync> FromIterator<T> for RefList<T> {
    /// Inserts each value at the front, so that the last one comes first.
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut list = RefList::new();
        list.extend(values);
        list
    }
}

impl<T: Send + Sync> Default for RefList<T> {
    fn default() -> Self {
        RefList::new()
    }
}

impl<T: Send + Sync + fmt::Debug> fmt::Debug for RefList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}
