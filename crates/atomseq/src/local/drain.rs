//! Removing all elements, shared by all structures.

use std::fmt;

/// A structure whose elements can be removed one by one.
pub(super) trait Take<T> {
    /// Removes the next element; `None` if there is none. `cursor` is state of the iteration, zero
    /// at first.
    fn take(&self, cursor: &mut usize) -> Option<T>;
}

/// An iterator that removes the elements of a structure one by one; created by the structures'
/// `drain`.
///
/// Each `next` removes one element, atomically with respect to handlers. Handlers may interrupt the
/// iteration anywhere, and add or remove elements. Dropping the iterator leaves the remaining
/// elements in the structure.
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

/// Implements what structures with a `pop` have in common: [`Take`], and the destructor by it,
/// `Default` and `Debug`.
macro_rules! bounded {
    ($name:ident<T $(: $bound:ident)?>) => {
        impl<T $(: $bound)?, const N: usize> $crate::local::drain::Take<T> for $name<T, N> {
            fn take(&self, _cursor: &mut usize) -> Option<T> {
                self.pop()
            }
        }

        impl<T $(: $bound)?, const N: usize> Drop for $name<T, N> {
            fn drop(&mut self) {
                if needs_drop::<T>() {
                    let mut values = self.drain();
                    $crate::drops::each(|| values.next().is_some());
                }
            }
        }

        impl<T $(: $bound)?, const N: usize> Default for $name<T, N> {
            fn default() -> $name<T, N> {
                $name::new()
            }
        }

        impl<T $(: $bound)?, const N: usize> std::fmt::Debug for $name<T, N> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("len", &self.len())
                    .field("capacity", &N)
                    .field("scope", &self.scope)
                    .finish()
            }
        }
    };
}
pub(super) use bounded;

#[cfg(test)]
mod tests {
    use crate::local;
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    thread_local!(static DROPPED: Cell<usize> = const { Cell::new(0) });

    /// A value that panics if it is the second one dropped.
    struct PanicsSecond;

    impl Drop for PanicsSecond {
        fn drop(&mut self) {
            DROPPED.set(DROPPED.get() + 1);
            assert!(DROPPED.get() != 2, "the second one");
        }
    }

    fn check_drop_after_panic<S>(structure: S) {
        DROPPED.set(0);
        let unwound = catch_unwind(AssertUnwindSafe(|| drop(structure)));
        assert!(unwound.is_err());
        assert_eq!(DROPPED.get(), 4, "{}", std::any::type_name::<S>());
    }

    #[test]
    fn a_panic_in_a_destructor_does_not_keep_others_from_running() {
        let stack = local::Stack::<Box<PanicsSecond>, 4>::new();
        let queue = local::Queue::<Box<PanicsSecond>, 4>::new();
        let ring = local::Ring::<PanicsSecond, 4>::new();
        let map = local::Map::<u8, Box<PanicsSecond>, 8>::new();
        for number in 0..4 {
            assert!(stack.push(Box::new(PanicsSecond)).is_ok());
            assert!(queue.push(Box::new(PanicsSecond)).is_ok());
            assert!(ring.push(PanicsSecond).is_ok());
            assert!(map.insert(number, Box::new(PanicsSecond)).is_ok());
        }
        check_drop_after_panic(stack);
        check_drop_after_panic(queue);
        check_drop_after_panic(ring);
        check_drop_after_panic(map);
    }
}
