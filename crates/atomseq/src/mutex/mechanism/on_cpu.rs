//! By a sequence that threads of the same CPU cannot come between.

use crate::mutex::bias::{Bias, Policy};
use crate::mutex::{Interventions, TestAndSet, barrier};
use crate::scope::SameCpu;
use crate::sequence;

/// Test-and-set that the kernel restarts (B91 2.4, 3.1), for the threads of one CPU.
///
/// Scope [`SameCpu`]. The CPU of the thread that first sets it is its home for good. There, setting
/// it costs no atomic instruction, and clearing it, anywhere, is a store. Threads of other CPUs may
/// use it as well, which is why it is [`Sync`]: they take the home away, have the kernel abort the
/// sequences that run there, set it, and give the home back; that costs three system calls, four
/// atomic instructions and an interrupt of the home. [`BiasedFlag`](super::BiasedFlag) moves to
/// where it is used.
///
/// Waits for nothing but other CPUs' visits, and for one moment, visiting, for whoever has it set:
/// nobody at home comes first then. Where [sections cannot be
/// fenced](crate::status::Status::gates_active), it is interlocked: decided once, by the first use,
/// at no cost later (B91 3.1.1).
///
/// May be used in signal handlers. A child of a fork finds it as it was, set by a thread that is
/// not there perhaps.
#[derive(Debug)]
pub struct OnCpu(Bias);

/// It stays where it is.
struct Stays;

impl Policy for Stays {
    fn next(&self, home: usize, _here: usize) -> usize {
        home
    }
}

// SAFETY: `Bias` is set for one caller at a time, and cleared with Release before it is set with
// Acquire.
unsafe impl TestAndSet for OnCpu {
    type Scope = SameCpu;
    type GuardMarker = lock_api::GuardSend;
    const NAME: &'static str = "on-cpu";
    const CLEAR: OnCpu = OnCpu(Bias::CLEAR);

    #[inline(always)]
    fn test_and_set(&self) -> bool {
        self.0.take() || self.0.take_slowly(&Stays)
    }

    #[inline(always)]
    unsafe fn clear(&self) {
        // SAFETY: the same.
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
        barrier::is_available()
    }

    /// All sequences' of the process.
    fn interventions() -> Interventions {
        Interventions {
            restarts: Some(sequence::restarts()),
            ..Interventions::default()
        }
    }
}
