//! A test-and-set that is none: the control, which must be found out. verify-stress compiles this
//! file, too.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use atomseq::mutex::TestAndSet;
use atomseq::scope::Machine;

/// Looks, then sets; others come in between.
#[derive(Debug)]
pub struct Unprotected(AtomicU32);

// SAFETY: it is none, which is what the torture must find out; nothing but its own words is guarded
// by it, and they are atomic.
unsafe impl TestAndSet for Unprotected {
    type Scope = Machine;
    type GuardMarker = lock_api::GuardSend;
    const NAME: &'static str = "unprotected";
    const CLEAR: Unprotected = Unprotected(AtomicU32::new(0));

    fn test_and_set(&self) -> bool {
        let was_clear = !self.is_set();
        // On one CPU, and in one thread, too, others come in.
        if was_clear && fastrand::u8(..64) == 0 {
            thread::yield_now();
        }
        // Acquire would pair with nothing: nothing is kept out.
        self.0.store(1, Ordering::Relaxed);
        was_clear
    }

    unsafe fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    unsafe fn clear_then_look(&self) {
        self.0.swap(0, Ordering::SeqCst);
    }

    fn waiter_barrier(&self) {}
}
