//! Test-and-set by a sequence that is atomic with respect to the threads of one CPU.

use super::is_waiter_barrier_effective;
use crate::mutex::bias::{HomeFlag, Policy};
use crate::mutex::{Interventions, TestAndSet};
use crate::scope::SameCpu;
use crate::sequence;

/// Test-and-set for the threads of one CPU, restarted by the kernel (B91, sections 2.4 and 3.1).
///
/// Scope [`SameCpu`]. The CPU of the thread that first sets the flag is its home permanently.
/// There, setting it costs no atomic instruction. Clearing it, on any CPU, is a store. Threads of
/// other CPUs may use it as well, which is why it is [`Sync`]: they visit. A visit claims the home,
/// makes the kernel abort the sequences that run there, sets the flag, and restores the home. It
/// costs three system calls, four atomic instructions, and an interrupt of the home CPU.
/// [`BiasedFlag`](super::BiasedFlag) is a variant that moves to where it is used.
///
/// Setting the flag blocks only during other CPUs' visits. A visit spins for a moment while the
/// flag is set, and during that time no thread on the home CPU can set it. Where [sections cannot
/// be fenced](crate::status::Status::gates_active), the flag is interlocked: the first use decides
/// this, and later uses pay nothing for it (B91, section 3.1.1).
///
/// May be used in signal handlers. The child of a fork finds the flag in the state at the fork,
/// possibly set by a thread that does not exist there.
#[derive(Debug)]
pub struct OnCpu(HomeFlag);

/// The policy of a home that never moves.
struct Stays;

impl Policy for Stays {
    fn next(&self, home: usize, _here: usize) -> usize {
        home
    }
}

// SAFETY: `HomeFlag` is set by one caller at a time, and the Release that clears it pairs with the
// Acquire that sets it.
unsafe impl TestAndSet for OnCpu {
    type Scope = SameCpu;
    type GuardMarker = lock_api::GuardSend;
    const NAME: &'static str = "on-cpu";
    const CLEAR: OnCpu = OnCpu(HomeFlag::CLEAR);

    #[inline(always)]
    fn test_and_set(&self) -> bool {
        self.0.take() || self.0.take_slowly(&Stays)
    }

    #[inline(always)]
    unsafe fn clear(&self) {
        // SAFETY: the caller guarantees that it holds the flag.
        unsafe { self.clear_then_look() }
    }

    #[inline(always)]
    fn is_set(&self) -> bool {
        self.0.is_set()
    }

    #[inline(always)]
    unsafe fn clear_then_look(&self) {
        if self.0.is_biased() {
            self.0.clear();
        } else {
            self.0.clear_interlocked();
        }
    }

    #[inline(always)]
    fn waiter_barrier(&self) {
        self.0.waiter_barrier();
    }

    fn has_waiter_barrier(&self) -> bool {
        is_waiter_barrier_effective()
    }

    /// The counts of all sequences of the process.
    fn interventions() -> Interventions {
        Interventions {
            restarts: Some(sequence::restarts()),
            ..Interventions::default()
        }
    }
}
