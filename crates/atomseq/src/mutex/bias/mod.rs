//! A flag with a home: threads of one CPU set it by a sequence, without an atomic instruction;
//! others visit.
//!
//! The sequence looks at the home and at the flag, then sets the flag. A visitor takes the home
//! away, so that no sequence that begins later passes, and has the kernel abort those that began
//! earlier: the fence. Then it has the flag to itself, like whoever holds a gate in `percpu`.
//!
//! # States
//!
//! | home | held | what it is |
//! |---|---|---|
//! | `UNSET` | `FREE` | as made; nobody has set it yet |
//! | a CPU's number | `FREE`, `HELD` | biased: set by the sequence on that CPU |
//! | `CLAIM` | any | a claimant, a visitor or the holder, is between its claim and what it publishes |
//! | `INTERLOCKED` | `FREE_INTERLOCKED`, `HELD_INTERLOCKED` | set by compare-and-swap, by everybody |
//!
//! `held` says how *this* holding was taken, so that a mode that changes does not confuse whoever
//! clears it; that it says which mode a *clear* flag is in makes the compare-and-swap of a thread
//! that has slept through a change of mode fail.
//!
//! # Transitions
//!
//! | from | to | who | how |
//! |---|---|---|---|
//! | `UNSET`, `FREE` | its CPU, `FREE` | anybody, where sections can be fenced | compare-and-swap of the home |
//! | `UNSET`, `FREE` | `CLAIM`, then `INTERLOCKED`, `HELD_INTERLOCKED` | anybody, elsewhere | the same, then as a claimant |
//! | c, `FREE` | c, `HELD` | a thread on c | the sequence |
//! | c, any | `CLAIM`, any | a visitor, signals blocked and forks kept out | compare-and-swap of the home, then the fence on c |
//! | `CLAIM`, `FREE` | `CLAIM`, `HELD` or `HELD_INTERLOCKED` | the claimant | a store |
//! | `CLAIM`, any | any CPU, or `INTERLOCKED` if it is so held | the claimant | exchange of the home, which wakes who waits for that |
//! | any, `HELD` | the same, `FREE` | the holder, on any CPU, whatever the home is now | a store |
//! | `INTERLOCKED`, `FREE_INTERLOCKED` | the same, `HELD_INTERLOCKED` | anybody | compare-and-swap |
//! | `INTERLOCKED`, `HELD_INTERLOCKED` | the same, `FREE_INTERLOCKED` | the holder | a store |
//! | `INTERLOCKED`, `HELD_INTERLOCKED` | `CLAIM`, `HELD`, then its CPU, `HELD` | the holder | compare-and-swap of the home, then as a claimant |
//!
//! From which follows what is asked of each in an odd place:
//!
//! * **A holder that migrated** clears it from where it is: a store, as at home. Only the holder
//!   writes `held` while it is not clear, and sequences write it only while it is.
//! * **A home that is claimed while the flag is held**: the claimant waits a moment, during which
//!   nobody at home can set it again, so it is next; a holder that takes longer (it may have been
//!   preempted) is not waited for: the claimant publishes a home and returns false.
//! * **A waiter announces itself** (`parking`) before the barrier: a holder that has not yet
//!   cleared the flag at the barrier sees the announcement when it has; of one that has, the waiter
//!   sees that the flag is clear. A fence that aborts sequences would not do, for clearing is none.
//!   The barrier is on all CPUs, since the holder may have migrated.
//! * **A fork** waits until no claim is under way, unless it was kept waiting too long. A claim
//!   names the generation that made it, so a child takes over one whose claimant stayed behind.
//!   What a thread that is not in the child held stays held there, as with every lock.
//! * **A thread that exits while it holds it** leaves it held. `force_unlock` then clears it as
//!   `held` says it was set, which is a state of the table: whoever changes both words is a
//!   claimant, and no handler ends a claimant.
//! * **A handler** that interrupts the sequence aborts it, and never interrupts a claimant.
//! * **A home whose CPU goes away** is fenced like any other, and left at the next change of home.

mod claim;

use super::home;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// Homes from here on are no CPUs. None of them is what `cpu()` reads as on a thread that is not
/// registered, -1 or -2.
const SPECIAL: usize = 1 << (usize::BITS - 2);
/// Nobody has set the flag yet.
pub(super) const UNSET: usize = SPECIAL;
/// Threads of all CPUs set it by an atomic instruction.
pub(super) const INTERLOCKED: usize = SPECIAL + 1;
/// A visitor has it, in a process of the generation above.
const CLAIM: usize = SPECIAL + 2;

/// Clear, and to be set by the sequence.
pub(super) const FREE: usize = 0;
/// Set, by the sequence or by a visitor.
pub(super) const HELD: usize = 1;
/// Set, by an atomic instruction.
const HELD_INTERLOCKED: usize = 2;
/// Clear, and to be set by an atomic instruction.
const FREE_INTERLOCKED: usize = 3;

/// What lies between the two words: sequences reach words at multiples of eight bytes, whatever a
/// word takes.
pub(super) const APART: usize = 8 / size_of::<usize>() - 1;

/// The flag and its home.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Bias {
    /// Whose threads set it without an atomic instruction.
    pub(super) home: AtomicUsize,
    pub(super) apart: [usize; APART],
    pub(super) held: AtomicUsize,
    /// How many claims have ended that others waited for: what they sleep on.
    pub(super) ended: AtomicU32,
}

/// Where a flag is at home after a visit.
pub(super) trait Policy {
    /// Asked by the claimant that holds the flag now: `home` is where it was at home, `here` the
    /// claimant's CPU. A CPU, or [`INTERLOCKED`].
    fn next(&self, home: usize, here: usize) -> usize;
}

impl Bias {
    /// Sets it as this thread's CPU and the home allow at once; true if that was possible.
    #[inline(always)]
    pub fn take(&self) -> bool {
        // Acquire: pairs with the Release that published the home, and with it what start-up found
        // out.
        let home = self.home.load(Ordering::Acquire);
        if home < SPECIAL {
            home::take_at_home(self)
        } else {
            home == INTERLOCKED && self.exchange().is_ok()
        }
    }

    /// Sets it; false if it was set already. For whoever could not do so at once.
    #[inline(always)]
    pub fn take_slowly(&self, policy: &impl Policy) -> bool {
        claim::take_slowly(self, policy)
    }

    /// Sets an interlocked flag; `Err` has what it was.
    #[inline(always)]
    fn exchange(&self) -> Result<usize, usize> {
        // Acquire: pairs with the Release in `clear`; so that whoever finds it clear in the other
        // way finds its home, too.
        let (free, held) = (FREE_INTERLOCKED, HELD_INTERLOCKED);
        self.held
            .compare_exchange(free, held, Ordering::Acquire, Ordering::Acquire)
    }

    /// Was it set at home or by a visitor, not by an atomic instruction? Asked by its holder.
    #[inline(always)]
    pub fn is_biased(&self) -> bool {
        // Relaxed: the holder's own.
        self.held.load(Ordering::Relaxed) == HELD
    }

    /// Clears one that [is biased](Bias::is_biased). Asked by its holder.
    #[inline(always)]
    pub fn clear(&self) {
        home::clear(self, FREE);
    }

    /// Clears one that is not biased. Asked by its holder.
    #[inline(always)]
    pub fn clear_interlocked(&self) {
        home::clear(self, FREE_INTERLOCKED);
    }

    /// From now on threads of this CPU set it without an atomic instruction, where that is
    /// possible: then true, and it [is biased](Bias::is_biased). Asked by its holder, while it is
    /// not.
    #[cold]
    pub fn move_to(&self, cpu: usize) -> bool {
        claim::move_to(self, cpu)
    }

    /// Where it is at home. Already out of date when it returns.
    #[cfg(all(test, atomseq_sections))]
    pub fn home(&self) -> usize {
        self.home.load(Ordering::Relaxed)
    }

    /// Is it set? Already out of date when it returns.
    #[inline(always)]
    pub fn is_set(&self) -> bool {
        // Relaxed: a hint.
        matches!(self.held.load(Ordering::Relaxed), HELD | HELD_INTERLOCKED)
    }

    /// Between a waiter's announcement and its next look.
    #[cold]
    pub fn waiter_barrier(&self) {
        home::waiter_barrier();
    }
}

#[cfg(all(test, atomseq_sections))]
mod tests;
