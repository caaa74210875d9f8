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

#[cfg(test)]
mod tests {
    use crate::local;
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    thread_local!(static DROPPED: Cell<usize> = const { Cell::new(0) });

    /// The second one that is dropped panics.
    struct Loud;

    impl Drop for Loud {
        fn drop(&mut self) {
            DROPPED.set(DROPPED.get() + 1);
            assert!(DROPPED.get() != 2, "the second one");
        }
    }

    fn is_dropped_as_a_whole<S>(structure: S) {
        DROPPED.set(0);
        let unwound = catch_unwind(AssertUnwindSafe(|| drop(structure)));
        assert!(unwound.is_err());
        assert_eq!(DROPPED.get(), 4, "{}", std::any::type_name::<S>());
    }

    #[test]
    fn structures_of_a_thread_are_dropped_as_a_whole() {
        let stack = local::Stack::<Box<Loud>, 4>::new();
        let queue = local::Queue::<Box<Loud>, 4>::new();
        let ring = local::Ring::<Loud, 4>::new();
        let map = local::Map::<u8, Box<Loud>, 8>::new();
        for number in 0..4 {
            assert!(stack.push(Box::new(Loud)).is_ok());
            assert!(queue.push(Box::new(Loud)).is_ok());
            assert!(ring.push(Loud).is_ok());
            assert!(map.insert(number, Box::new(Loud)).is_ok());
        }
        is_dropped_as_a_whole(stack);
        is_dropped_as_a_whole(queue);
        is_dropped_as_a_whole(ring);
        is_dropped_as_a_whole(map);
    }
}
