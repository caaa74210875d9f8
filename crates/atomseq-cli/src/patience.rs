//! How long the command waits before it concludes that something hangs.
//!
//! A clock also runs while the whole process stands still: stopped by Ctrl-Z, frozen with its
//! container, suspended with its virtual machine, or without a CPU. What it waits for stands still
//! as well then, and is accused of nothing. So only the time counts in which the waiting thread
//! kept looking: a gap between two looks counts as one look, however long it was.

use std::time::{Duration, Instant};

/// A time to wait, and how much of it is left.
#[derive(Debug)]
pub struct Patience {
    left: Duration,
    look: Duration,
    looked: Instant,
}

impl Patience {
    /// So much of it, for a thread that looks every now and then; a look counts as `look` at most.
    pub fn new(all: Duration, look: Duration) -> Self {
        Self {
            left: all,
            look,
            looked: Instant::now(),
        }
    }

    /// Looks: whether it is over.
    pub fn is_over(&mut self) -> bool {
        self.is_over_at(Instant::now())
    }

    /// The same at a given moment, not before the last one.
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
    fn what_is_awake_waits_that_long() {
        let mut patience = Patience::new(100 * MILLISECOND, 5 * MILLISECOND);
        let mut now = patience.looked;
        let mut is_over_after = |step| {
            now += step;
            patience.is_over_at(now)
        };
        assert!((1..50).all(|_| !is_over_after(2 * MILLISECOND)));
        assert!(is_over_after(2 * MILLISECOND));
        assert!(is_over_after(Duration::ZERO), "and stays over");
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
        assert!(patience.is_over_at(now), "but not as nothing");
    }
}
