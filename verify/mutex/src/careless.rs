//! Mechanisms that are wrong, which every check here has to find out.

use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use atomseq::mutex::TestAndSet;
use atomseq::scope::Machine;

/// Looks, and then sets, with nothing to keep others out in between.
#[derive(Debug)]
pub struct LooksThenSets(AtomicU32);

// SAFETY: it is not: what a check guards with it is made of atomics, so that nothing but a wrong
// sum comes of it.
unsafe impl TestAndSet for LooksThenSets {
    type Scope = Machine;
    type GuardMarker = lock_api::GuardSend;
    const NAME: &'static str = "looks, then sets";
    const CLEAR: LooksThenSets = LooksThenSets(AtomicU32::new(0));

    fn test_and_set(&self) -> bool {
        let clear = self.0.load(Ordering::Acquire) == 0;
        if clear {
            // As long as a cache miss takes: on a busy machine, threads meet rarely.
            (0..20).for_each(|_| std::hint::spin_loop());
            self.0.store(1, Ordering::SeqCst);
        }
        clear
    }

    unsafe fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    unsafe fn clear_then_look(&self) {
        self.0.swap(0, Ordering::SeqCst);
    }

    fn waiter_barrier(&self) {}
}

/// Excludes, but neither its holder nor its waiters see to it that one of them sees the other.
#[derive(Debug)]
pub struct Unpaired(AtomicU32);

// SAFETY: one of several exchanges finds 0. What it does not keep is that nobody sleeps for ever.
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

    /// The store may stay in this CPU's buffer until after the look.
    unsafe fn clear_then_look(&self) {
        self.0.store(0, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
    }

    fn waiter_barrier(&self) {}
}
