//! By an instruction that other CPUs cannot come between.

use std::sync::atomic::compiler_fence;

use crate::mutex::{TestAndSet, barrier};
use crate::platform;
use crate::scope::Machine;
use crate::sync::{AtomicU32, Ordering};

/// Test-and-set by an interlocked instruction (B91 2.1).
///
/// Scope [`Machine`]; wait-free; one atomic instruction to set, a store to clear. Who waits for one
/// to be cleared pays for that: on Linux, with a barrier on all CPUs before it sleeps, which is a
/// system call.
#[derive(Debug, Default)]
pub struct Interlocked(AtomicU32);

// SAFETY: only one of several exchanges of 1 finds 0; the Acquire pairs with the Release in
// `clear`.
unsafe impl TestAndSet for Interlocked {
    type Scope = Machine;
    type GuardMarker = lock_api::GuardSend;
    const NAME: &'static str = "interlocked";
    const CLEAR: Interlocked = Interlocked(AtomicU32::new(0));

    #[inline(always)]
    fn test_and_set(&self) -> bool {
        // Acquire: pairs with the Release in `clear`.
        self.0.swap(1, Ordering::Acquire) == 0
    }

    #[inline(always)]
    unsafe fn clear(&self) {
        // Release: pairs with the Acquire in `test_and_set`.
        self.0.store(0, Ordering::Release);
    }

    #[inline(always)]
    fn is_set(&self) -> bool {
        // Relaxed: a hint.
        self.0.load(Ordering::Relaxed) != 0
    }

    #[inline(always)]
    unsafe fn clear_then_look(&self) {
        if platform::ORDERS_ALL {
            // Release: pairs with the Acquire in `test_and_set`.
            self.0.store(0, Ordering::Release);
            // The processor may make the next load earlier, the compiler may not: the waiter's
            // barrier stands for it.
            compiler_fence(Ordering::SeqCst);
        } else {
            // SeqCst: pairs with the fence in `barrier`.
            self.0.swap(0, Ordering::SeqCst);
        }
    }

    #[inline(always)]
    fn waiter_barrier(&self) {
        barrier::waiter_barrier();
    }

    fn has_waiter_barrier(&self) -> bool {
        barrier::is_available()
    }
}
