//! What tests of locks share, for any lock and any mechanism.

pub mod races;

use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use atomseq::mutex::TestAndSet;
use atomseq::scope::Machine;

/// A mechanism that is wrong, which a check must detect: it excludes, but orders neither its holder
/// nor its waiters, so that each can miss the other.
#[derive(Debug)]
pub struct Unpaired(AtomicU32);

// SAFETY: one of several exchanges finds 0, so it excludes. It does not keep a waiter from sleeping
// indefinitely.
unsafe impl TestAndSet for Unpaired {
    type Scope = Machine;
    type GuardMarker = lock_api::GuardSend;
    const NAME: &'static str = "unpaired";
    const CLEAR: Unpaired = Unpaired(AtomicU32::new(0));

    fn test_and_set(&self) -> bool {
        self.0.swap(1, Ordering::Acquire) == 0
    }

    unsafe fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// The store may stay in this CPU's store buffer until after the load.
    unsafe fn clear_then_look(&self) {
        self.0.store(0, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
    }

    fn waiter_barrier(&self) {}
}
