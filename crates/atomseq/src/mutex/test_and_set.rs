//! The operation that every lock here is made of.

use crate::scope::Scope;

/// A variable that is set or clear, and the mechanism that makes setting it indivisible (B91 2).
///
/// The type is the mechanism and the value is the variable, so whether threads may share one
/// follows from its type: one whose mechanism is atomic against this thread's handlers only is not
/// [`Sync`].
///
/// The lock that is made of it waits; this does not.
///
/// ```
/// use atomseq::mutex::{Interlocked, TestAndSet};
///
/// let flag = Interlocked::CLEAR;
/// assert!(flag.test_and_set(), "it was clear, and whoever set it holds it");
/// assert!(!flag.test_and_set());
/// // SAFETY: this thread set it.
/// unsafe { flag.clear() };
/// ```
///
/// # Safety
///
/// Between a [`test_and_set`](TestAndSet::test_and_set) that returned true and the next
/// [`clear`](TestAndSet::clear), no other may return true: for whoever the type lets reach the
/// variable, and in any case for the signal handlers of a thread that reaches it. What was written
/// before a `clear` is seen after the `test_and_set` that follows it.
///
/// [`clear`](TestAndSet::clear) and [`clear_then_look`](TestAndSet::clear_then_look) do not unwind:
/// the guard of a lock that was unlocked would unlock it again. The others may, although `lock`
/// then ends the process.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no mechanism that a lock can be made of",
    label = "no test-and-set",
    note = "the mechanisms of `atomseq::mutex` implement `TestAndSet`, among them `Interlocked` for all threads and \
            `Restarting` for one thread and its signal handlers"
)]
pub unsafe trait TestAndSet {
    /// Whom setting it is atomic against.
    type Scope: Scope;

    /// May the guard of a lock made of it be sent to another thread, which then clears it?
    /// [`lock_api::GuardSend`] if so, else [`lock_api::GuardNoSend`].
    ///
    /// (Where the variable itself is not `Sync`, guards stay where they are in any case.)
    type GuardMarker;

    /// What to call the mechanism, in tables and options.
    const NAME: &'static str;

    /// One that is clear.
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "the value that new ones begin with, and nothing else"
    )]
    const CLEAR: Self;

    /// Sets it; true if it was clear, so that whoever called holds it now.
    fn test_and_set(&self) -> bool;

    /// Clears it.
    ///
    /// # Safety
    ///
    /// Whoever calls holds it: it was set by a `test_and_set` that returned true, for this caller
    /// or one that handed it over.
    unsafe fn clear(&self);

    /// Is it set? Already out of date when it returns.
    fn is_set(&self) -> bool;

    /// Clears it, and lets no load after that be made before: whoever announces itself, then calls
    /// [`waiter_barrier`](TestAndSet::waiter_barrier) and still finds it set is seen by the load
    /// that follows.
    ///
    /// # Safety
    ///
    /// As [`clear`](TestAndSet::clear).
    unsafe fn clear_then_look(&self);

    /// For a waiter that has just announced itself, before it looks once more: pairs with
    /// [`clear_then_look`](TestAndSet::clear_then_look). A mechanism may make this the dear side of
    /// the pair.
    fn waiter_barrier(&self);

    /// Can [`waiter_barrier`](TestAndSet::waiter_barrier) do what it should in this process? Where
    /// it cannot, waiters look again every millisecond.
    fn has_waiter_barrier(&self) -> bool {
        true
    }

    /// Called by a lock that found it held. Counts, in mechanisms that count.
    #[inline(always)]
    fn found_held(&self) {}

    /// Called by a lock whose new holder got it from the last one as it was, set. Counts, in
    /// mechanisms that count.
    #[inline(always)]
    fn handed_over(&self) {}

    /// Called by a lock whose thread is about to block, after the first rounds of its wait. Counts,
    /// in mechanisms that count.
    #[inline(always)]
    fn blocks(&self) {}

    /// What somebody had to do for this mechanism, in the whole process so far: B91 table 3's
    /// columns.
    fn interventions() -> Interventions {
        Interventions::default()
    }
}

/// What the kernel or a signal handler had to do for a mechanism, in the whole process so far (B91
/// table 3).
///
/// `None` where the mechanism has no such thing, or nobody counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Interventions {
    /// Instructions that were trapped and emulated, or calls that stood for them.
    pub emulations: Option<u64>,
    /// Sequences that were interrupted and began again.
    pub restarts: Option<u64>,
    /// Sequences that were interrupted and run to their end first.
    pub rollforwards: Option<u64>,
    /// Signals that were put off.
    pub deferrals: Option<u64>,
}
