//! The restarts of one operation, and of the whole process.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::sequence::DEFAULT_RESTART_LIMIT;

/// The max number of consecutive restarts of an operation: see
/// [`set_restart_limit`](crate::sequence::set_restart_limit).
pub(crate) static RESTART_LIMIT: AtomicUsize = AtomicUsize::new(DEFAULT_RESTART_LIMIT);

/// The number of restarts in this process.
pub(crate) static RESTARTED: AtomicU64 = AtomicU64::new(0);

/// The number of restarts of one operation.
#[derive(Debug)]
pub struct Restarts(usize);

impl Restarts {
    #[inline(always)]
    pub const fn none() -> Restarts {
        Restarts(0)
    }

    /// Counts a restart. Returns `false` if the limit is exceeded.
    #[cold]
    #[inline(never)]
    pub fn again(&mut self) -> bool {
        self.0 += 1;
        // Relaxed: an independent number.
        RESTARTED.fetch_add(1, Ordering::Relaxed);
        // Relaxed: an independent number, see `set_restart_limit`.
        self.0 <= RESTART_LIMIT.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::restarts;

    #[test]
    fn restarts_are_counted_and_bounded() {
        let (before, mut operation) = (restarts(), Restarts::none());
        let max = DEFAULT_RESTART_LIMIT;
        assert!((0..max).all(|_| operation.again()));
        assert!(!operation.again());
        assert!(restarts() > before + max as u64);
    }
}
