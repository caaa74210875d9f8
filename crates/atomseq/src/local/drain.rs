//! Taking everything out, the same for every structure.

use std::fmt;

/// A structure that elements can be taken out of, one by one.
pub(super) trait Take<T> {
    /// Takes the next one, or says that there is none. `cursor` is the iteration's own, first zero.
    fn take(&self, cursor: &mut usize) -> Option<T>;
}

/// The elements of a structure, taken out one by one; made by the structures' `drain`.
///
/// Each element is taken when it is asked for, in one atomic operation, so handlers may interrupt
/// the iteration anywhere, and put in or take out what they like. What was not asked for stays.
pub struct Drain<'a, T> {
    from: &'a dyn Take<T>,
    cursor: usize,
}

impl<'a, T> Drain<'a, T> {
    pub(super) fn new(from: &'a dyn Take<T>) -> Drain<'a, T> {
        Drain { from, cursor: 0 }
    }
}

impl<T> Iterator for Drain<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.from.take(&mut self.cursor)
    }
}

impl<T> fmt::Debug for Drain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Drain")
    }
}
