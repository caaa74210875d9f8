//! Test-and-set, the operation that all locks of this module are built on, and its mechanisms: by
//! an interlocked instruction, and, with respect to signal handlers, by sequences or a mask. Those
//! by sequences on one CPU have a file of their own.

mod biased_flag;

use std::sync::atomic::compiler_fence;

use crate::scope::{Machine, SameThread, Scope};
use crate::sync::{AtomicU32, Ordering, fence};
use crate::{platform, signal};

pub use biased_flag::{BiasedFlag, OnCpu};

/// A flag that is set or clear, and the mechanism that makes setting it atomic (B91, section 2).
///
/// The type is the mechanism, and a value is a flag. Its type determines whether threads may share
/// it: a flag whose mechanism is atomic only with respect to this thread's handlers is not
/// [`Sync`].
///
/// A test-and-set does not wait for the flag to be cleared; the locks do.
///
/// ```
/// use atomseq::mutex::{Interlocked, TestAndSet};
///
/// let flag = Interlocked::CLEAR;
/// assert!(flag.test_and_set(), "the flag was clear, so this thread holds it now");
/// assert!(!flag.test_and_set());
/// // SAFETY: this thread set it.
/// unsafe { flag.clear() };
/// ```
///
/// # Safety
///
/// Between a [`test_and_set`](TestAndSet::test_and_set) that returned true and the next
/// [`clear`](TestAndSet::clear), no other may return true. This holds for all threads that the type
/// lets reach the flag, and for their signal handlers. What was written before a `clear` is visible
/// after the `test_and_set` that follows it.
///
/// [`clear`](TestAndSet::clear) and [`clear_then_look`](TestAndSet::clear_then_look) do not unwind,
/// because the guard would otherwise unlock the lock a second time. The other methods may unwind,
/// although `lock` then ends the process.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no mechanism that a lock can be made of",
    label = "no test-and-set",
    note = "the mechanisms of `atomseq::mutex` implement `TestAndSet`, among them `Interlocked` for all threads and \
            `Restarting` for one thread and its signal handlers"
)]
pub unsafe trait TestAndSet {
    /// What setting the flag is atomic with respect to.
    type Scope: Scope;

    /// Whether the guard of a lock may be sent to another thread, which then clears the flag:
    /// [`lock_api::GuardSend`] if so, or else [`lock_api::GuardNoSend`].
    ///
    /// If the flag itself is not `Sync`, its guards cannot be sent in any case.
    type GuardMarker;

    /// The name of the mechanism in tables and options.
    const NAME: &'static str;

    /// A clear flag.
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "the value that new ones begin with, and nothing else"
    )]
    const CLEAR: Self;

    /// Sets the flag. Returns true if it was clear; the caller then holds it.
    fn test_and_set(&self) -> bool;

    /// Clears the flag.
    ///
    /// # Safety
    ///
    /// The caller holds the flag: a `test_and_set` returned true to it, or to a holder that handed
    /// the flag over to it.
    unsafe fn clear(&self);

    /// Returns whether the flag is set. The result may be out of date when the call returns.
    fn is_set(&self) -> bool;

    /// Clears the flag, and orders this before the caller's next load. That load sees the
    /// announcement of every waiter that announces itself, then calls
    /// [`waiter_barrier`](TestAndSet::waiter_barrier), and still finds the flag set.
    ///
    /// # Safety
    ///
    /// The caller holds the flag, as for [`clear`](TestAndSet::clear).
    unsafe fn clear_then_look(&self);

    /// The barrier between a waiter's announcement and its next test of the flag; pairs with
    /// [`clear_then_look`](TestAndSet::clear_then_look). A mechanism may make this the expensive
    /// side of the pair.
    fn waiter_barrier(&self);

    /// Returns whether [`waiter_barrier`](TestAndSet::waiter_barrier) is effective in this process.
    /// If not, waiters poll every millisecond.
    fn has_waiter_barrier(&self) -> bool {
        true
    }

    /// Called by a lock that found the flag set. Mechanisms that count override it.
    #[inline(always)]
    fn found_held(&self) {}

    /// Called by a lock whose last holder handed the flag, still set, over to this thread.
    /// Mechanisms that count override it.
    #[inline(always)]
    fn handed_over(&self) {}

    /// Called by a lock whose thread is about to block, after the first rounds of its wait.
    /// Mechanisms that count override it.
    #[inline(always)]
    fn blocks(&self) {}

    /// Returns what the kernel or signal handlers have done for this mechanism in this process so
    /// far: the columns of table 3 of B91.
    fn interventions() -> Interventions {
        Interventions::default()
    }
}

/// What the kernel or signal handlers have done for a mechanism in this process so far (B91, table
/// 3).
///
/// A field is `None` if the mechanism has no such intervention, or if it is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Interventions {
    /// Instructions that were trapped and emulated, or system calls in their place.
    pub emulations: Option<u64>,
    /// Sequences that were interrupted and restarted.
    pub restarts: Option<u64>,
    /// Sequences that were interrupted and rolled forward.
    pub rollforwards: Option<u64>,
    /// Signals that were deferred.
    pub deferrals: Option<u64>,
}

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
            // SeqCst: pairs with the fence in `waiter_barrier`.
            self.0.swap(0, Ordering::SeqCst);
        }
    }

    #[inline(always)]
    fn waiter_barrier(&self) {
        waiter_barrier();
    }

    fn has_waiter_barrier(&self) -> bool {
        is_waiter_barrier_effective()
    }
}

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
    /// Scope [`SameThread`]. Wait-free. No atomic instruction where sequences are
    /// [protected](crate::signal), one elsewhere. M94, section 1, calls this disabling interrupts.
    ///
    /// Some signals are [never held back](signal#signals-that-are-never-held-back). The set is a
    /// sequence that their handlers roll forward, which costs no more than the plain load and
    /// store.
    Masked "masked" counts deferrals |flag| {
        let _masked = signal::mask();
        set_under_mask(flag)
    }
}

/// Sets the flag, atomically against the handlers of signals that no mask holds back.
#[cfg(atomseq_sections)]
#[inline(always)]
fn set_under_mask(flag: &Flag) -> bool {
    // SAFETY: the address of the flag's word, which only this thread and its handlers access.
    unsafe { set::rolling(flag.address()) }
}

/// As above. A sequence of this build would make two system calls more.
#[cfg(not(atomseq_sections))]
#[inline(always)]
fn set_under_mask(flag: &Flag) -> bool {
    // Relaxed: only this thread and its handlers access it.
    flag.word.swap(1, Ordering::Relaxed) == 0
}

// The expensive side of the barrier pair by which a thread that clears a flag and a thread that
// waits for it see each other.
//
// ```text
// holder    clear the flag; read the announcement
// waiter    announce; waiter_barrier; read the flag
// ```
//
// On Linux the holder's side is a store and a load, which its processor may reorder. The waiter
// therefore executes a barrier on all CPUs (`membarrier`) before it sleeps. If the holder has not
// cleared the flag at the barrier, its later load sees the announcement. If it has, the waiter
// sees that the flag is clear. On other systems the holder clears the flag by an exchange.

/// Executed by a waiter between its announcement and its next read of the flag.
#[inline(always)]
pub(in crate::mutex) fn waiter_barrier() {
    if !platform::ORDERS_ALL {
        // SeqCst: pairs with the holder's exchange. If the waiter's next operation on the flag
        // precedes that exchange, so does this fence, and the holder's load after the exchange sees
        // the announcement.
        fence(Ordering::SeqCst);
    } else if platform::can_order_all() {
        platform::barrier();
    }
}

/// Returns whether [`waiter_barrier`] is effective in this process. If not, waiters have to poll.
pub(in crate::mutex) fn is_waiter_barrier_effective() -> bool {
    !platform::ORDERS_ALL || platform::can_order_all()
}
