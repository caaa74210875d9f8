//! How a thread waits for others here: a few pauses, then its CPU is for them.

use std::hint::spin_loop;
use std::thread;
use std::time::Duration;

/// One wait of a thread's, which takes longer each time.
pub struct Patience(u32);

impl Patience {
    /// Not lost yet.
    pub fn new() -> Patience {
        Patience(0)
    }

    /// Waits a little.
    pub fn wait(&mut self) {
        match self.0 {
            0..6 => (0..1 << self.0).for_each(|_| spin_loop()),
            6..64 => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros(50)),
        }
        self.0 = self.0.saturating_add(1);
    }
}
