//! What a lock guards: a number and its complement, changed by loads and stores that only the lock
//! makes additions of.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A number, kept twice.
#[derive(Debug)]
pub struct Section {
    count: AtomicU64,
    complement: AtomicU64,
}

/// After so many acquisitions the holder lets others run, in the middle of what it does.
const LINGERS: u64 = 1 << 10;

impl Default for Section {
    fn default() -> Section {
        Section {
            count: AtomicU64::new(0),
            complement: AtomicU64::new(!0),
        }
    }
}

impl Section {
    /// Adds one, under the lock, and at times lets others run in the middle. `false`: somebody else
    /// has left it half done.
    #[inline(always)]
    pub fn add(&self) -> bool {
        self.change(|count| {
            if count % LINGERS == 0 {
                thread::yield_now();
            }
        })
    }

    /// The same at once.
    #[inline(always)]
    pub fn add_at_once(&self) -> bool {
        self.change(|_| {})
    }

    #[inline(always)]
    fn change(&self, halfway: impl FnOnce(u64)) -> bool {
        // Relaxed throughout: the lock is to order it all. Atomic only so that a lock that does not
        // is found out by numbers, and not by undefined behaviour.
        let count = self.count.load(Ordering::Relaxed);
        let whole = self.complement.load(Ordering::Relaxed) == !count;
        self.count.store(count + 1, Ordering::Relaxed);
        halfway(count);
        self.complement.store(!(count + 1), Ordering::Relaxed);
        whole
    }

    /// How many additions were lost or doubled, once all have stopped.
    pub fn wrong(&self, added: u64) -> u64 {
        self.count.load(Ordering::Relaxed).abs_diff(added)
    }
}
