//! Dropping values one by one, even if some of them panic.

/// Repeats a step until it returns `false`, when nothing is left to drop.
///
/// If a step panics, the remaining ones run during the unwinding, as in `Vec` and the other
/// collections of `std`. A second panic aborts the process.
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
            // If the last one panics, one more step follows, which finds nothing.
            let steps = if panics == 4 { 5 } else { 4 };
            assert_eq!(done, (0..steps).collect::<Vec<_>>());
        }
    }
}
