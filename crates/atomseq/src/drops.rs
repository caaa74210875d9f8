//! Ending values one by one, any of which may panic when it is dropped.

/// Repeats a step until it returns `false`: there is nothing more to end.
///
/// If a step panics, the others are done while that unwinds, as `Vec` and the other collections of `std` do it. A second
/// panic aborts the process.
pub(crate) fn each(step: impl FnMut() -> bool) {
    struct Rest<S: FnMut() -> bool>(S);

    impl<S: FnMut() -> bool> Drop for Rest<S> {
        fn drop(&mut self) {
            while (self.0)() {}
        }
    }

    let mut rest = Rest(step);
    while (rest.0)() {}
    std::mem::forget(rest);
}

#[cfg(test)]
mod tests {
    use super::each;
    use crate::local;
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_panic_does_not_keep_the_others() {
        for panics in 0..5 {
            let mut done = Vec::new();
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                each(|| {
                    done.push(done.len());
                    assert!(done.len() != panics, "this one");
                    done.len() < 4
                });
            }));
            assert_eq!(unwound.is_err(), (1..=4).contains(&panics));
            // The last one may panic, too: then there is one step more, which finds nothing.
            let steps = if panics == 4 { 5 } else { 4 };
            assert_eq!(done, (0..steps).collect::<Vec<_>>());
        }
    }

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
