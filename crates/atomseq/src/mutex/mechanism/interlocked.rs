//! Test-and-set by an atomic instruction.

use std::sync::atomic::compiler_fence;

use crate::mutex::{TestAndSet, barrier};
use crate::platform;
use crate::scope::Machine;
use crate::sync::{AtomicU32, Ordering};

/// Test-and-set by an interlocked instruction (B91, section 2.1).
///
/// Scope [`Machine`]. Wait-free. Setting it costs one atomic instruction, and clearing it a store.
/// The waiters bear the cost of that store: on Linux, a waiter executes a barrier on all CPUs
/// before it sleeps, which is a system call.
#[derive(Debug, Default)]
pub struct Interlocked(AtomicU32);

// SAFETY: of several exchanges that store 1, only one gets 0. The Acquire in `test_and_set` pairs
// with the Release in `clear`.
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
        // Relaxed: only a hint.
        self.0.load(Ordering::Relaxed) != 0
    }

    #[inline(always)]
    unsafe fn clear_then_look(&self) {
        if platform::ORDERS_ALL {
            // Release: pairs with the Acquire in `test_and_set`.
            self.0.store(0, Ordering::Release);
            // The processor may execute the next load earlier, but the compiler must not move it.
            // The waiter's barrier makes up for the processor.
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
