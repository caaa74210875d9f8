//! Planned panics for tests: in the first call of the user's code, in the second, and so on, until
//! a trial makes no more calls.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

thread_local! {
    /// How many calls succeed before one panics. `None`: no panic is planned.
    static CALLS: Cell<Option<usize>> = const { Cell::new(None) };
    /// The numbers of all values that were created and not dropped.
    pub(crate) static THERE: RefCell<BTreeSet<u64>> = const { RefCell::new(BTreeSet::new()) };
}

struct Planned;

/// Panics if a panic is planned for this call. All user code that the tests pass to structures
/// calls this.
pub(crate) fn call() {
    match CALLS.get() {
        Some(0) => {
            CALLS.set(None);
            resume_unwind(Box::new(Planned));
        }
        calls => CALLS.set(calls.map(|calls| calls - 1)),
    }
}

/// Runs `work` with a panic planned after this many calls. Returns whether it panicked.
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

/// Runs a trial with a panic in the first call, in the second, and so on, until it does not panic.
/// Returns how many trials panicked.
pub(crate) fn each_call(name: &str, mut trial: impl FnMut(usize) -> bool) -> usize {
    let mut after = 0;
    while trial(after) {
        after += 1;
        assert!(after < 10_000, "{name} makes no end of calls");
    }
    after
}

/// A value that records its creation and its drop, and may panic when it is dropped.
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
