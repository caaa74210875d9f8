//! Test-and-set by sequences, or under a mask, atomic with respect to the thread's signal handlers.

use std::sync::atomic::compiler_fence;

use crate::mutex::{Interventions, TestAndSet};
use crate::scope::SameThread;
use crate::signal;
use crate::sync::{AtomicU32, Ordering};

crate::sequence! {
    /// Sets the flag. Returns true if it was clear (B91, figure 3).
    unsafe fn set(flag: Word) -> bool {
        let held = load32(flag);
        if held != 0 { return false }
        commit32(flag, 1);
        true
    }
}

/// The sequences of this file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(in crate::mutex) const SEQUENCES: &[&crate::sequence::model::Program] = &[&set::MODEL];

/// The flag of one thread and its handlers.
#[derive(Debug, Default)]
struct Flag {
    word: AtomicU32,
    _scope: SameThread,
}

impl Flag {
    const fn new() -> Flag {
        Flag {
            word: AtomicU32::new(0),
            _scope: SameThread::new(),
        }
    }

    #[inline(always)]
    fn address(&self) -> usize {
        self.word.as_ptr() as usize
    }

    #[inline(always)]
    fn is_set(&self) -> bool {
        // Relaxed: only this thread and its handlers access it.
        self.word.load(Ordering::Relaxed) != 0
    }

    #[inline(always)]
    fn clear(&self) {
        // Release: keeps the compiler from moving accesses under the lock behind this store.
        self.word.store(0, Ordering::Release);
    }
}

/// Implements a mechanism whose flag is set by the expression `$set`.
macro_rules! by {
    ($(#[$documentation:meta])* $mechanism:ident $name:literal counts $count:ident |$flag:ident| $set:expr) => {
        $(#[$documentation])*
        #[derive(Debug, Default)]
        pub struct $mechanism(Flag);

        // SAFETY: no handler of this thread can interfere between the test and the set, and no
        // other thread can reach the flag.
        unsafe impl TestAndSet for $mechanism {
            type Scope = SameThread;
            type GuardMarker = lock_api::GuardNoSend;
            const NAME: &'static str = $name;
            const CLEAR: $mechanism = $mechanism(Flag::new());

            #[inline(always)]
            fn test_and_set(&self) -> bool {
                let $flag = &self.0;
                let taken = $set;
                // Keeps the compiler from moving accesses under the lock before the set.
                compiler_fence(Ordering::Acquire);
                taken
            }

            #[inline(always)]
            unsafe fn clear(&self) {
                self.0.clear();
            }

            #[inline(always)]
            fn is_set(&self) -> bool {
                self.0.is_set()
            }

            #[inline(always)]
            unsafe fn clear_then_look(&self) {
                self.0.clear();
                // A thread and its handlers see their own stores in order; only the compiler must
                // be restrained.
                compiler_fence(Ordering::SeqCst);
            }

            #[inline(always)]
            fn waiter_barrier(&self) {}

            /// The counts of all sequences and masks of the process.
            fn interventions() -> Interventions {
                Interventions {
                    $count: Some(signal::statistics().$count),
                    ..Interventions::default()
                }
            }
        }
    };
}

by! {
    /// Test-and-set by a sequence that signal handlers restart (B91, section 3.2).
    ///
    /// Scope [`SameThread`]. Wait-free, except for restarts by handlers. No atomic instruction.
    // SAFETY: the address of the flag's word, which only this thread and its handlers access.
    Restarting "restarting" counts restarts |flag| unsafe { set::restarting(flag.address()) }
}

by! {
    /// Test-and-set by a sequence that signal handlers roll forward (M94, section 2.2.2).
    ///
    /// Scope [`SameThread`]. Wait-free. No atomic instruction.
    // SAFETY: the address of the flag's word, which only this thread and its handlers access.
    Rolling "rolling" counts rollforwards |flag| unsafe { set::rolling(flag.address()) }
}

by! {
    /// Test-and-set with signals deferred by [`signal::mask`].
    ///
    /// Scope [`SameThread`]. Wait-free. No atomic instruction. M94, section 1, calls this disabling
    /// interrupts.
    Masked "masked" counts deferrals |flag| {
        let _masked = signal::mask();
        !flag.is_set() && {
            // Relaxed: only this thread and its handlers access it, and handlers are deferred.
            flag.word.store(1, Ordering::Relaxed);
            true
        }
    }
}
