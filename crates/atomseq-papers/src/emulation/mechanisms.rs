//! The two mechanisms.

use std::sync::atomic::{AtomicU32, Ordering, fence};

use atomseq::mutex::{Interventions, TestAndSet};
use atomseq::scope::Machine;

use super::{Error, platform};
use crate::statistics::{CALLS, TRAPS};

/// Test-and-set by an undefined instruction that a signal handler emulates (B91 2.3).
///
/// Scope [`Machine`]; a store to clear, and to set a trap, a signal's delivery and return, a system
/// call that checks the address, and one atomic instruction. What interrupts an emulation waits for
/// its end, except for faults. Not for signal handlers that interrupt one nevertheless: `SIGILL` is
/// blocked then, and kills.
///
/// An address that is not the program's to write is its own fault: the `SIGSEGV` or `SIGBUS` that
/// an interlocked instruction at the same place would have raised, with the address and the
/// instruction; if the handler returns, the instruction is executed again. (A [`Trap`] made in Rust
/// always has a good address.)
///
/// The first use installs the handler, unless [`start`](Trap::start) has done so; use `start` where
/// a failure should not be a panic, and before threads and signal handlers use it.
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
/// [`test_and_set`](TestAndSet::test_and_set), if the handler was not installed before and cannot
/// be.
#[derive(Debug, Default)]
pub struct Trap(AtomicU32);

impl Trap {
    /// Installs the handler of `SIGILL`, and tries it. Other causes of that signal find the handler
    /// that was there before.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`]; [`Error::Handler`] if the handler is not installed;
    /// [`Error::Refused`] if the kernel does not check addresses for us.
    pub fn start() -> Result<(), Error> {
        platform::trap::start()
    }
}

/// Test-and-set by a system call that does a compare-and-swap in the kernel: `FUTEX_TRYLOCK_PI`.
///
/// Scope [`Machine`]; lock-free but for the kernel's own lock around the word; a system call to
/// set, a store to clear.
///
/// The word holds its setter's thread number. The kernel is asked to try only, so it keeps nothing
/// of the variable, and whoever holds it may clear it by a store, hand it to another thread to
/// clear, or end.
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
/// [`test_and_set`](TestAndSet::test_and_set), if the kernel does not have the call or forbids it;
/// [`start`](Call::start) tells beforehand.
#[derive(Debug, Default)]
pub struct Call(AtomicU32);

impl Call {
    /// Tries the call.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`]; [`Error::Refused`] if the kernel was built without such futexes, or
    /// a sandbox forbids them.
    pub fn start() -> Result<(), Error> {
        platform::call::start()
    }
}

/// Test-and-set by `$how`, counted in `$count`.
macro_rules! by {
    ($mechanism:ident $name:literal $how:ident $count:ident) => {
        // SAFETY: whoever emulates changes the word from 0 to another value by one interlocked
        // instruction, which orders all memory as well; while it is not 0, nobody but the holder
        // writes it.
        unsafe impl TestAndSet for $mechanism {
            type Scope = Machine;
            type GuardMarker = lock_api::GuardSend;
            const NAME: &'static str = $name;
            const CLEAR: $mechanism = $mechanism(AtomicU32::new(0));

            // Not inlined, as B91 measured it (4.1).
            #[inline(never)]
            fn test_and_set(&self) -> bool {
                platform::$how::test_and_set(&self.0)
            }

            #[inline(always)]
            unsafe fn clear(&self) {
                // Release: pairs with the interlocked instruction of whoever emulates.
                self.0.store(0, Ordering::Release);
            }

            #[inline(always)]
            fn is_set(&self) -> bool {
                // Relaxed: a hint.
                self.0.load(Ordering::Relaxed) != 0
            }

            #[inline(always)]
            unsafe fn clear_then_look(&self) {
                // Release: as in `clear`.
                self.0.store(0, Ordering::Release);
                // Pairs with the fence in `waiter_barrier`.
                fence(Ordering::SeqCst);
            }

            #[inline(always)]
            fn waiter_barrier(&self) {
                // Pairs with the fence in `clear_then_look`.
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
