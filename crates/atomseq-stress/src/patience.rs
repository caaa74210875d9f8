//! How long the command waits before it concludes that something hangs.
//!
//! A clock also runs while the whole process does not: stopped by Ctrl-Z, frozen with its
//! container, suspended with its virtual machine, or without a CPU. What the process waits for does
//! not run then, either. So only the time counts in which the waiting thread looks: a gap between
//! two looks counts as one look, however long it is.

use std::time::{Duration, Instant};

/// A time to wait, of which only the time counts in which the waiting thread runs.
#[derive(Debug)]
pub struct Patience {
    left: Duration,
    look: Duration,
    looked: Instant,
}

impl Patience {
    /// Returns a time to wait for a thread that looks periodically; the time since its last look
    /// counts as at most `look`.
    pub fn new(all: Duration, look: Duration) -> Self {
        Self {
            left: all,
            look,
            looked: Instant::now(),
        }
    }

    /// Looks, and returns whether the time is over.
    pub fn is_over(&mut self) -> bool {
        self.is_over_at(Instant::now())
    }

    /// Does the same at a given moment, not before the last one.
    pub fn is_over_at(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.looked);
        self.left = self.left.saturating_sub(passed.min(self.look));
        self.looked = now;
        self.left.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn a_thread_that_runs_waits_that_long() {
        let mut patience = Patience::new(100 * MILLISECOND, 5 * MILLISECOND);
        let mut now = patience.looked;
        let mut is_over_after = |step| {
            now += step;
            patience.is_over_at(now)
        };
        assert!((1..50).all(|_| !is_over_after(2 * MILLISECOND)));
        assert!(is_over_after(2 * MILLISECOND));
        assert!(is_over_after(Duration::ZERO), "and it stays over");
    }

    #[test]
    fn a_stop_counts_as_one_look() {
        let mut patience = Patience::new(100 * MILLISECOND, 5 * MILLISECOND);
        let stopped = Duration::from_secs(3_600);
        let mut now = patience.looked;
        for _ in 1..20 {
            now += stopped;
            assert!(!patience.is_over_at(now));
        }
        now += stopped;
        assert!(patience.is_over_at(now), "but not as no time");
    }
}
