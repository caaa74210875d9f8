//! The two mechanisms of kernel emulation.

use std::sync::atomic::{AtomicU32, Ordering, fence};

use atomseq::mutex::{Interventions, TestAndSet};
use atomseq::scope::Machine;

use super::{Error, platform};
use crate::statistics::{CALLS, TRAPS};

/// Test-and-set by an undefined instruction that a signal handler emulates (B91, section 2.3).
///
/// Scope: [`Machine`]. Cost to clear: a store. Cost to set: a trap, the delivery and return of a
/// signal, a system call that checks the address, and one atomic instruction. A signal that arrives
/// during an emulation waits for its end, except for a fault and `SIGABRT`. A handler that
/// interrupts an emulation nevertheless must not use this: `SIGILL` is blocked then, and kills the
/// process. Nor may a thread that blocks `SIGILL`.
///
/// If the program may not write the address, the thread gets the `SIGSEGV` or `SIGBUS` that an
/// interlocked instruction at the same place would have raised, with the same address and
/// instruction. If its handler returns, the instruction is executed again. (A [`Trap`] created in
/// Rust always has a valid address.)
///
/// The first use installs the handler, unless [`start`](Trap::start) has done so. Call `start`
/// first if a failure must not panic, and before threads and signal handlers use the type.
///
/// ```
/// # #[cfg(atomseq_sections)] {
/// use atomseq::mutex::TestAndSet;
/// use atomseq_papers::emulation::Trap;
///
/// Trap::start()?;
/// let flag = Trap::CLEAR;
/// assert!(flag.test_and_set());
/// assert!(!flag.test_and_set());
/// # }
/// # Ok::<(), atomseq_papers::emulation::Error>(())
/// ```
///
/// # Panics
///
/// [`test_and_set`](TestAndSet::test_and_set) panics if the handler is not installed and cannot be.
#[derive(Debug, Default)]
pub struct Trap(AtomicU32);

impl Trap {
    /// Installs the handler of `SIGILL`, after checking that the kernel can check addresses. A
    /// `SIGILL` with another cause is passed to the handler of other code from before. A handler of
    /// `atomseq::signal` is replaced, and none may replace or remove this one later: the next
    /// instruction would end the process. Only the first successful call installs.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] on systems without emulation; [`Error::Handler`] if the handler
    /// cannot be installed; [`Error::Refused`] if the kernel does not check addresses.
    pub fn start() -> Result<(), Error> {
        platform::trap::start()
    }
}

/// Test-and-set by a system call that does a compare-and-swap in the kernel: `FUTEX_TRYLOCK_PI`.
///
/// Scope: [`Machine`]. Progress: lock-free, apart from the kernel's own lock around the word. Cost:
/// a system call to set, a store to clear.
///
/// The word holds the number of the thread that set it. The call only tries, so the kernel keeps no
/// state about the variable. The holder may clear it with a store, let another thread clear it, or
/// exit.
///
/// ```
/// # #[cfg(atomseq_sections)] {
/// use atomseq::mutex::TestAndSet;
/// use atomseq_papers::emulation::Call;
///
/// Call::start()?;
/// let flag = Call::CLEAR;
/// assert!(flag.test_and_set());
/// assert!(!flag.test_and_set());
/// # }
/// # Ok::<(), atomseq_papers::emulation::Error>(())
/// ```
///
/// # Panics
///
/// [`test_and_set`](TestAndSet::test_and_set) panics if the kernel lacks the call or a sandbox
/// forbids it. [`start`](Call::start) reports that in advance.
#[derive(Debug, Default)]
pub struct Call(AtomicU32);

impl Call {
    /// Checks that the kernel executes the call.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] on systems without emulation; [`Error::Refused`] if the kernel was
    /// built without such futexes or a sandbox forbids them.
    pub fn start() -> Result<(), Error> {
        platform::call::start()
    }
}

/// Implements test-and-set by `$how`, counted in `$count`.
macro_rules! by {
    ($mechanism:ident $name:literal $how:ident $count:ident) => {
        // SAFETY: the emulating handler or kernel changes the word from 0 to another value by one
        // interlocked instruction, which also orders all memory. While the word is not 0, only the
        // holder writes it.
        unsafe impl TestAndSet for $mechanism {
            type Scope = Machine;
            type GuardMarker = lock_api::GuardSend;
            const NAME: &'static str = $name;
            const CLEAR: $mechanism = $mechanism(AtomicU32::new(0));

            // Not inlined, because B91 measured it that way (section 4.1).
            #[inline(never)]
            fn test_and_set(&self) -> bool {
                platform::$how::test_and_set(&self.0)
            }

            #[inline(always)]
            unsafe fn clear(&self) {
                // Release: pairs with the interlocked instruction of the emulating handler or
                // kernel.
                self.0.store(0, Ordering::Release);
            }

            #[inline(always)]
            fn is_set(&self) -> bool {
                // Relaxed: the result is a hint.
                self.0.load(Ordering::Relaxed) != 0
            }

            #[inline(always)]
            unsafe fn clear_then_look(&self) {
                // Release: pairs with the interlocked instruction of the emulating handler or
                // kernel.
                self.0.store(0, Ordering::Release);
                // SeqCst: pairs with the fence in `waiter_barrier`.
                fence(Ordering::SeqCst);
            }

            #[inline(always)]
            fn waiter_barrier(&self) {
                // SeqCst: pairs with the fence in `clear_then_look`.
                fence(Ordering::SeqCst);
            }

            fn interventions() -> Interventions {
                Interventions {
                    emulations: $count.get(),
                    ..Interventions::default()
                }
            }
        }
    };
}

by!(Trap "emulation-trap" trap TRAPS);
by!(Call "emulation-call" call CALLS);
