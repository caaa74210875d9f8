//! How a thread waits for others: it spins, then yields, then sleeps.

use std::hint::spin_loop;
use std::thread;
use std::time::Duration;

/// The state of one wait; each step takes longer than the one before.
pub struct Patience(u32);

impl Patience {
    /// Starts a wait.
    pub fn new() -> Patience {
        Patience(0)
    }

    /// Waits one step.
    pub fn wait(&mut self) {
        match self.0 {
            0..6 => (0..1 << self.0).for_each(|_| spin_loop()),
            6..64 => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros(50)),
        }
        self.0 = self.0.saturating_add(1);
    }
}
