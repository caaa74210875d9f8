//! Laws that must hold, and the first one seen broken. Signal handlers report too, so nothing here
//! allocates or locks.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many figures go with a broken law.
const FACTS: usize = 4;

/// A law that was found broken, with the figures that show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    law: &'static str,
    facts: [Option<(&'static str, u64)>; FACTS],
}

impl Broken {
    /// What does not hold, said as what was seen.
    pub const fn new(law: &'static str) -> Broken {
        Broken {
            law,
            facts: [None; FACTS],
        }
    }

    /// Adds a figure; beyond the fourth they are left out.
    pub const fn with(mut self, name: &'static str, value: u64) -> Broken {
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

    /// What was seen.
    pub fn law(&self) -> &'static str {
        self.law
    }

    /// The figures, as `name value, name value`.
    pub fn facts(&self) -> String {
        let facts = self.facts.iter().flatten();
        let facts: Vec<String> = facts
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        facts.join(", ")
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.facts[0] {
            None => f.write_str(self.law),
            Some(_) => write!(f, "{} ({})", self.law, self.facts()),
        }
    }
}

/// `Ok` while a law holds.
pub type Checked<T = ()> = Result<T, Broken>;

/// Where the first broken law is kept; later ones are most likely its consequences.
struct First {
    claimed: AtomicBool,
    written: AtomicBool,
    broken: UnsafeCell<Broken>,
}

// SAFETY: written once, by whoever moved `claimed` from false to true, and read only after
// `written`.
unsafe impl Sync for First {}

static FIRST: First = First {
    claimed: AtomicBool::new(false),
    written: AtomicBool::new(false),
    broken: UnsafeCell::new(Broken::new("")),
};

/// Records a broken law, if it is the first. Async-signal-safe.
pub fn report(broken: Broken) {
    // Relaxed: only the first to claim writes; readers look at `written`.
    if FIRST.claimed.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: this thread alone claimed it, and nobody reads before the store below.
    unsafe { *FIRST.broken.get() = broken };
    // Release: pairs with the acquire in `first`.
    FIRST.written.store(true, Ordering::Release);
}

/// Has any law been found broken?
pub fn any() -> bool {
    // Relaxed: a hint to stop.
    FIRST.claimed.load(Ordering::Relaxed)
}

/// The first law found broken.
pub fn first() -> Option<Broken> {
    // Acquire: pairs with the release in `report`.
    FIRST.written.load(Ordering::Acquire).then(|| {
        // SAFETY: written, and never again.
        unsafe { *FIRST.broken.get() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_law_is_told_with_its_figures() {
        let broken = Broken::new("a value came out twice");
        assert_eq!(broken.to_string(), "a value came out twice");
        let broken = broken.with("thread", 3).with("number", 7);
        assert_eq!(
            broken.to_string(),
            "a value came out twice (thread 3, number 7)"
        );
        let full = broken.with("a", 1).with("b", 2).with("c", 3);
        assert_eq!(full.facts(), "thread 3, number 7, a 1, b 2");
    }
}
