//! By an instruction that other CPUs cannot come between.

use crate::mutex::TestAndSet;
use crate::scope::Machine;
use crate::sync::{AtomicU32, Ordering, fence};

/// Test-and-set by an interlocked instruction (B91 2.1).
///
/// Scope [`Machine`]; wait-free; one atomic instruction to set, a store to clear.
#[derive(Debug, Default)]
pub struct Interlocked(AtomicU32);

// SAFETY: only one of several exchanges of 1 finds 0; the Acquire pairs with the Release in `clear`.
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
        // SeqCst: pairs with the fence in `settle`.
        self.0.swap(0, Ordering::SeqCst);
    }

    #[inline(always)]
    fn settle(&self) {
        // SeqCst: pairs with the exchange in `clear_then_look`. If what the waiter does to the flag now comes before
        // that exchange, then so does this fence, and the load after the exchange finds the announcement.
        fence(Ordering::SeqCst);
    }
}
