//! Panics for tests: in the first call of the user's code, in the second, and so on, until there
//! are no more.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

thread_local! {
    /// How many calls go well before one panics.
    static CALLS: Cell<Option<usize>> = const { Cell::new(None) };
    /// Each value that was made and not dropped.
    pub(crate) static THERE: RefCell<BTreeSet<u64>> = const { RefCell::new(BTreeSet::new()) };
}

struct Planned;

/// In everything that the tests have the structures call.
pub(crate) fn call() {
    match CALLS.get() {
        Some(0) => {
            CALLS.set(None);
            resume_unwind(Box::new(Planned));
        }
        calls => CALLS.set(calls.map(|calls| calls - 1)),
    }
}

/// Runs `work`, in which a call panics after so many; whether one did.
pub(crate) fn panics(after: usize, work: impl FnOnce()) -> bool {
    CALLS.set(Some(after));
    let unwound = catch_unwind(AssertUnwindSafe(work));
    CALLS.set(None);
    match unwound {
        Ok(()) => false,
        Err(panic) if panic.is::<Planned>() => true,
        Err(other) => resume_unwind(other),
    }
}

/// Runs a trial with a panic in the first call, the second, and so on, until there is none; in how
/// many there was.
pub(crate) fn each_call(name: &str, mut trial: impl FnMut(usize) -> bool) -> usize {
    let mut after = 0;
    while trial(after) {
        after += 1;
        assert!(after < 10_000, "{name} does not come to an end");
    }
    after
}

/// A value that is counted, and may panic when it is dropped.
#[derive(Debug)]
pub(crate) struct Value(pub(crate) u64);

impl Value {
    pub(crate) fn new(number: u64) -> Value {
        let is_new = THERE.with_borrow_mut(|there| there.insert(number));
        assert!(is_new, "{number} was never dropped");
        Value(number)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        let was_there = THERE.with_borrow_mut(|there| there.remove(&self.0));
        assert!(was_there, "{} was dropped twice", self.0);
        call();
    }
}

pub(crate) fn there() -> Vec<u64> {
    THERE.with_borrow(|there| there.iter().copied().collect())
}
