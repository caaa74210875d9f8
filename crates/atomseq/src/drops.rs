//! Ending values one by one, any of which may panic when it is dropped.

/// Repeats a step until it returns `false`: there is nothing more to end.
///
/// If a step panics, the others are done while that unwinds, as `Vec` and the other collections of
/// `std` do it. A second panic aborts the process.
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
}
