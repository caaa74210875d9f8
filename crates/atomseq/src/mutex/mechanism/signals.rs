//! By sequences, or by a mask, that signal handlers cannot come between.

use std::sync::atomic::compiler_fence;

use crate::mutex::{Interventions, TestAndSet};
use crate::scope::SameThread;
use crate::signal;
use crate::sync::{AtomicU32, Ordering};

crate::sequence! {
    /// Sets the flag; true if it was clear (B91 figure 3).
    unsafe fn set(flag: Word) -> bool {
        let held = load32(flag);
        if held != 0 { return false }
        commit32(flag, 1);
        true
    }
}

/// For the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(in crate::mutex) const SEQUENCES: &[&crate::sequence::model::Program] = &[&set::MODEL];

/// The flag, for one thread and its handlers.
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
        // Relaxed: the same thread.
        self.word.load(Ordering::Relaxed) != 0
    }

    #[inline(always)]
    fn clear(&self) {
        // Release: keeps the compiler from moving what was done under the lock behind it.
        self.word.store(0, Ordering::Release);
    }
}

/// Test-and-set that is set by `$how`, which gives the body.
macro_rules! by {
    ($(#[$documentation:meta])* $mechanism:ident $name:literal counts $count:ident |$flag:ident| $set:expr) => {
        $(#[$documentation])*
        #[derive(Debug, Default)]
        pub struct $mechanism(Flag);

        // SAFETY: no handler of this thread comes between looking and setting, and no other thread
        // reaches the flag.
        unsafe impl TestAndSet for $mechanism {
            type Scope = SameThread;
            type GuardMarker = lock_api::GuardNoSend;
            const NAME: &'static str = $name;
            const CLEAR: $mechanism = $mechanism(Flag::new());

            #[inline(always)]
            fn test_and_set(&self) -> bool {
                let $flag = &self.0;
                let taken = $set;
                // What is done under the lock stays behind.
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
                // One thread sees its own stores in order, as do its handlers.
                compiler_fence(Ordering::SeqCst);
            }

            #[inline(always)]
            fn waiter_barrier(&self) {}

            /// All sequences' and masks' of the process.
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
    /// Test-and-set that signal handlers restart (B91 3.2).
    ///
    /// Scope [`SameThread`]; wait-free but for handlers; no atomic instruction.
    // SAFETY: the flag is this thread's and its handlers'.
    Restarting "restarting" counts restarts |flag| unsafe { set::restarting(flag.address()) }
}

by! {
    /// Test-and-set that signal handlers let run to its end (M94 2.2.2).
    ///
    /// Scope [`SameThread`]; wait-free; no atomic instruction.
    // SAFETY: the flag is this thread's and its handlers'.
    Rolling "rolling" counts rollforwards |flag| unsafe { set::rolling(flag.address()) }
}

by! {
    /// Test-and-set with signals put off by [`signal::mask`].
    ///
    /// Scope [`SameThread`]; wait-free; no atomic instruction. M94 1 calls it disabling interrupts.
    Masked "masked" counts deferrals |flag| {
        let _masked = signal::mask();
        !flag.is_set() && {
            // Relaxed: the same thread.
            flag.word.store(1, Ordering::Relaxed);
            true
        }
    }
}
