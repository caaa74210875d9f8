//! Invariants, and the first violation of one. Signal handlers report violations too, so reporting
//! neither allocates nor locks.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many figures a violation can have.
const FACTS: usize = 4;

/// What was seen that violates an invariant, with the figures that show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    what: &'static str,
    facts: [Option<(&'static str, u64)>; FACTS],
}

impl Violation {
    /// Returns a violation without figures.
    pub const fn new(what: &'static str) -> Violation {
        Violation {
            what,
            facts: [None; FACTS],
        }
    }

    /// Adds a figure; the fifth and later ones are omitted.
    pub const fn with(mut self, name: &'static str, value: u64) -> Violation {
        let mut index = 0;
        while index < FACTS {
            if self.facts[index].is_none() {
                self.facts[index] = Some((name, value));
                return self;
            }
            index += 1;
        }
        self
    }

    /// Returns what was seen.
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// Returns the figures, as `name value, name value`.
    pub fn facts(&self) -> String {
        let facts = self.facts.iter().flatten();
        let facts: Vec<String> = facts
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        facts.join(", ")
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.facts[0] {
            None => f.write_str(self.what),
            Some(_) => write!(f, "{} ({})", self.what, self.facts()),
        }
    }
}

/// `Ok` while all invariants hold.
pub type Checked<T = ()> = Result<T, Violation>;

/// Checks that two figures are equal.
///
/// # Errors
///
/// If they differ: `what`, with both figures.
pub fn equal(what: &'static str, is: u64, should_be: u64) -> Checked {
    match is == should_be {
        true => Ok(()),
        false => Err(Violation::new(what)
            .with("it is", is)
            .with("it should be", should_be)),
    }
}

/// Holds the first violation; later ones are most likely its consequences.
struct First {
    claimed: AtomicBool,
    written: AtomicBool,
    violation: UnsafeCell<Violation>,
}

// SAFETY: written once, by the thread that moved `claimed` from false to true, and read only after
// `written` is true.
unsafe impl Sync for First {}

static FIRST: First = First {
    claimed: AtomicBool::new(false),
    written: AtomicBool::new(false),
    violation: UnsafeCell::new(Violation::new("")),
};

/// Records a violation if it is the first. Async-signal-safe.
pub fn report(violation: Violation) {
    // Relaxed: only the first thread to claim it writes; readers check `written`.
    if FIRST.claimed.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: only this thread claimed it, and no thread reads it before the store below.
    unsafe { *FIRST.violation.get() = violation };
    // Release: pairs with the acquire in `first`.
    FIRST.written.store(true, Ordering::Release);
}

/// Returns whether any invariant was violated.
pub fn any() -> bool {
    // Relaxed: a hint to stop.
    FIRST.claimed.load(Ordering::Relaxed)
}

/// Returns the first violation.
pub fn first() -> Option<Violation> {
    // Acquire: pairs with the release in `report`.
    FIRST.written.load(Ordering::Acquire).then(|| {
        // SAFETY: written before, and never again.
        unsafe { *FIRST.violation.get() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_is_printed_with_its_figures() {
        let violation = Violation::new("a value was taken out twice");
        assert_eq!(violation.to_string(), "a value was taken out twice");
        let violation = violation.with("thread", 3).with("number", 7);
        assert_eq!(
            violation.to_string(),
            "a value was taken out twice (thread 3, number 7)"
        );
        let full = violation.with("a", 1).with("b", 2).with("c", 3);
        assert_eq!(full.facts(), "thread 3, number 7, a 1, b 2");
    }
}
