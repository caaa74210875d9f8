//! The operation that all locks of this module are built on.

use crate::scope::Scope;

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
