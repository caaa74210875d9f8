//! A flag with a home CPU. Threads on that CPU set it by a sequence, without an atomic instruction;
//! threads on other CPUs *visit*.
//!
//! The sequence compares the home with the current CPU, tests the flag, and sets it. A visitor
//! first replaces the home by a claim, so sequences that start later do not set the flag. Then an
//! rseq fence makes the kernel abort the sequences that started earlier. From then on the visitor
//! owns the flag's state exclusively, like the holder of a gate in `percpu`.
//!
//! # States
//!
//! | home | held | meaning |
//! |---|---|---|
//! | `UNSET` | `FREE` | new; never set |
//! | a CPU's number | `FREE`, `HELD` | biased: set by the sequence on that CPU |
//! | `CLAIM` | any | a claimant (a visitor or the holder) has not published a home yet |
//! | `INTERLOCKED` | `FREE_INTERLOCKED`, `HELD_INTERLOCKED` | set by compare-exchange on all CPUs |
//!
//! `held` records how *this* holding was acquired, so a change of mode does not confuse the thread
//! that clears the flag. A *clear* flag also records its mode: the compare-exchange of a thread
//! that was stopped during a change of mode fails.
//!
//! # Transitions
//!
//! | from | to | by | how |
//! |---|---|---|---|
//! | `UNSET`, `FREE` | its CPU, `FREE` | any thread, if the fence works | compare-exchange of the home |
//! | `UNSET`, `FREE` | `CLAIM`, then `INTERLOCKED`, `HELD_INTERLOCKED` | any thread, otherwise | as a claimant |
//! | c, `FREE` | c, `HELD` | a thread on CPU c | the sequence |
//! | c, any | `CLAIM`, any | a visitor | compare-exchange of the home, then the fence on c |
//! | `CLAIM`, `FREE` | `CLAIM`, `HELD` or `HELD_INTERLOCKED` | the claimant | a store |
//! | `CLAIM`, any | any CPU, or `INTERLOCKED` if so held | the claimant | exchange of the home |
//! | any, `HELD` | the same, `FREE` | the holder, on any CPU | a store |
//! | `INTERLOCKED`, `FREE_INTERLOCKED` | the same, `HELD_INTERLOCKED` | any thread | compare-exchange |
//! | `INTERLOCKED`, `HELD_INTERLOCKED` | the same, `FREE_INTERLOCKED` | the holder | a store |
//! | `INTERLOCKED`, `HELD_INTERLOCKED` | `CLAIM`, `HELD`, then its CPU, `HELD` | the holder | as a claimant |
//!
//! A claimant blocks signals and delays forks while it owns the flag's state. The exchange that
//! publishes a home wakes the threads that wait for the claim to end.
//!
//! This determines the behaviour in unusual situations:
//!
//! * **The holder migrates**: it clears the flag from its new CPU, by the same store. Only the
//!   holder writes `held` while the flag is set, and sequences write it only while it is clear.
//! * **A thread claims the home while the flag is held**: the claimant spins for a moment. No
//!   thread on the home CPU can set the flag meanwhile, so the claimant is next. If the holder
//!   takes longer (it may have been preempted), the claimant publishes a home and returns false.
//! * **A waiter announces itself** (see `parking`) before the barrier. If the holder has not
//!   cleared the flag at the barrier, its later load sees the announcement. If it has, the waiter
//!   sees that the flag is clear. An rseq fence would not suffice, because clearing is not a
//!   sequence. The barrier is on all CPUs, because the holder may have migrated.
//! * **A fork** waits until no claim is in progress, unless it had to wait too long. A claim names
//!   the generation of its process, so a child takes over a claim that its parent's thread made.
//!   What a thread that does not exist in the child held stays held there, as with every lock.
//! * **The holder exits** without clearing the flag: it stays held. `force_unlock` then clears it
//!   in the way that `held` records. That is a transition of the table, because only a claimant
//!   changes both words, and no handler can end a claimant.
//! * **A handler** that interrupts the sequence aborts it. A handler never interrupts a claimant.
//! * **The home CPU goes offline**: it is fenced like any other, and the next change of home leaves
//!   it.

mod claim;

use super::home;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// Homes from here on are not CPU numbers. None of them equals -1 or -2, which `cpu()` returns on a
/// thread that is not registered.
const SPECIAL: usize = 1 << (usize::BITS - 2);
/// The flag has never been set.
pub(super) const UNSET: usize = SPECIAL;
/// Threads on all CPUs set the flag by an atomic instruction.
pub(super) const INTERLOCKED: usize = SPECIAL + 1;
/// A claimant owns the flag's state, in a process whose generation is in the bits above.
const CLAIM: usize = SPECIAL + 2;

/// Clear, to be set by the sequence.
pub(super) const FREE: usize = 0;
/// Set, by the sequence or by a visitor.
pub(super) const HELD: usize = 1;
/// Set, by an atomic instruction.
const HELD_INTERLOCKED: usize = 2;
/// Clear, to be set by an atomic instruction.
const FREE_INTERLOCKED: usize = 3;

/// The padding between the two words, because sequences access words at multiples of eight bytes on
/// all targets.
pub(super) const APART: usize = 8 / size_of::<usize>() - 1;

/// The flag and its home.
#[derive(Debug)]
#[repr(C)]
pub(super) struct HomeFlag {
    /// The CPU whose threads set the flag without an atomic instruction, or one of the special
    /// values.
    pub(super) home: AtomicUsize,
    pub(super) apart: [usize; APART],
    pub(super) held: AtomicUsize,
    /// The number of claims that have ended while other threads waited. These threads sleep on it.
    pub(super) ended: AtomicU32,
}

/// Decides the home of a flag after a visit.
pub(super) trait Policy {
    /// Returns the next home, a CPU or [`INTERLOCKED`]. Called by a claimant that has set the flag:
    /// `home` is the previous home, and `here` is the claimant's CPU.
    fn next(&self, home: usize, here: usize) -> usize;
}

impl HomeFlag {
    /// Sets the flag if this is possible at once, by the sequence on the home CPU or by a
    /// compare-exchange. Returns whether it has.
    #[inline(always)]
    pub fn take(&self) -> bool {
        // Acquire: pairs with the Release that published the home, and so with what start-up has
        // found.
        let home = self.home.load(Ordering::Acquire);
        if home < SPECIAL {
            home::take_at_home(self)
        } else {
            home == INTERLOCKED && self.exchange().is_ok()
        }
    }

    /// Sets the flag, by a visit if necessary. Returns false if it was set already.
    #[inline(always)]
    pub fn take_slowly(&self, policy: &impl Policy) -> bool {
        claim::take_slowly(self, policy)
    }

    /// Sets an interlocked flag. `Err` has the previous value.
    #[inline(always)]
    fn exchange(&self) -> Result<usize, usize> {
        // Acquire: pairs with the Release in `clear`. On failure, a thread that finds the flag
        // clear in the other mode then also sees its home.
        let (free, held) = (FREE_INTERLOCKED, HELD_INTERLOCKED);
        self.held
            .compare_exchange(free, held, Ordering::Acquire, Ordering::Acquire)
    }

    /// Returns whether the flag was set by the sequence or a visitor, not by an atomic instruction.
    /// Called by its holder.
    #[inline(always)]
    pub fn is_biased(&self) -> bool {
        // Relaxed: only the holder writes `held` while the flag is set.
        self.held.load(Ordering::Relaxed) == HELD
    }

    /// Clears a flag that [is biased](HomeFlag::is_biased). Called by its holder.
    #[inline(always)]
    pub fn clear(&self) {
        home::clear(self, FREE);
    }

    /// Clears a flag that is not biased. Called by its holder.
    #[inline(always)]
    pub fn clear_interlocked(&self) {
        home::clear(self, FREE_INTERLOCKED);
    }

    /// Makes this CPU the flag's home, if the fence works. Returns whether it has; the flag then
    /// [is biased](HomeFlag::is_biased). Called by the holder of an interlocked flag.
    #[cold]
    pub fn move_to(&self, cpu: usize) -> bool {
        claim::move_to(self, cpu)
    }

    /// Returns the home, which may be out of date.
    #[cfg(all(test, atomseq_sections))]
    pub fn home(&self) -> usize {
        self.home.load(Ordering::Relaxed)
    }

    /// Returns whether the flag is set. The result may be out of date.
    #[inline(always)]
    pub fn is_set(&self) -> bool {
        // Relaxed: only a hint.
        matches!(self.held.load(Ordering::Relaxed), HELD | HELD_INTERLOCKED)
    }

    /// The barrier between a waiter's announcement and its next read of the flag.
    #[cold]
    pub fn waiter_barrier(&self) {
        home::waiter_barrier();
    }
}

#[cfg(all(test, atomseq_sections))]
mod tests;
