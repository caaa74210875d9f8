//! Test-and-set by a sequence on a home CPU. [`OnCpu`] keeps its home. That of [`BiasedFlag`] is
//! the CPU that uses the flag most; if no CPU does, an atomic instruction sets it.

use super::{Interventions, TestAndSet, is_waiter_barrier_effective};
use crate::mutex::bias::{HomeFlag, INTERLOCKED, Policy};
use crate::mutex::home::current_cpu;
use crate::scope::{Machine, SameCpu};
use crate::sequence;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// Test-and-set for the threads of one CPU, restarted by the kernel (B91, sections 2.4 and 3.1).
///
/// Scope [`SameCpu`]. The CPU of the thread that first sets the flag is its home permanently.
/// There, setting it costs no atomic instruction. Clearing it, on any CPU, is a store. Threads of
/// other CPUs may use it as well, which is why it is [`Sync`]: they visit. A visit claims the home,
/// makes the kernel abort the sequences that run there, sets the flag, and restores the home. It
/// costs three system calls, four atomic instructions, and an interrupt of the home CPU.
/// [`BiasedFlag`] is a variant that moves to where it is used.
///
/// Setting the flag blocks only during other CPUs' visits. A visit spins for a moment while the
/// flag is set, and during that time no thread on the home CPU can set it. Where [sections cannot
/// be fenced](crate::status::Status::gates_active), the flag is interlocked: the first use decides
/// this, and later uses pay nothing for it (B91, section 3.1.1).
///
/// May be used in signal handlers. The child of a fork finds the flag in the state at the fork,
/// possibly set by a thread that does not exist there.
#[derive(Debug)]
pub struct OnCpu(HomeFlag);

/// The policy of a home that never moves.
struct Stays;

impl Policy for Stays {
    fn next(&self, home: usize, _here: usize) -> usize {
        home
    }
}

// SAFETY: `HomeFlag` is set by one caller at a time, and the Release that clears it pairs with the
// Acquire that sets it.
unsafe impl TestAndSet for OnCpu {
    type Scope = SameCpu;
    type GuardMarker = lock_api::GuardSend;
    const NAME: &'static str = "on-cpu";
    const CLEAR: OnCpu = OnCpu(HomeFlag::CLEAR);

    #[inline(always)]
    fn test_and_set(&self) -> bool {
        self.0.take() || self.0.take_slowly(&Stays)
    }

    #[inline(always)]
    unsafe fn clear(&self) {
        // SAFETY: the caller guarantees that it holds the flag.
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
        is_waiter_barrier_effective()
    }

    /// The counts of all sequences of the process.
    fn interventions() -> Interventions {
        Interventions {
            restarts: Some(sequence::restarts()),
            ..Interventions::default()
        }
    }
}

/// A flag as [`OnCpu`] whose home moves: to a CPU that alone uses it, or to an atomic
/// instruction if several CPUs use it.
///
/// Scope [`Machine`]. On the home CPU, setting the flag costs no atomic instruction. Clearing it
/// costs none on any CPU. A visit from another CPU costs three system calls, four atomic
/// instructions, and an interrupt of the home CPU. The flag counts its uses to decide whether
/// visits are worth that:
///
/// * While eight visits come with at least 512 uses each on average, the home stays.
/// * A CPU that visits twice without a use in between becomes the home.
/// * After eight visits with fewer uses, the flag becomes interlocked: every CPU sets it by one
///   atomic instruction, and clears it by a store.
/// * An interlocked flag becomes biased to a CPU that alone has used it 16,384 times in a row. Each
///   time that it becomes interlocked again, that number doubles, up to a million.
///
/// Otherwise it is like [`OnCpu`]. B91, section 3.1.1, leaves multiprocessors to
/// interlocked instructions; the home and visits are additions of atomseq.
#[derive(Debug)]
pub struct BiasedFlag {
    flag: HomeFlag,
    usage: Usage,
}

/// The statistics of a flag's use. Only holders access them, so no access needs an ordering.
#[derive(Debug)]
struct Usage {
    /// How often the flag was cleared: if biased, since the last visit; if interlocked, in a row by
    /// one CPU.
    uses: AtomicUsize,
    /// The sum of `uses` at the earlier visits of this group of visits.
    earlier: AtomicUsize,
    visits: AtomicU32,
    /// The last visitor's CPU, or that of an interlocked flag's last holder.
    last: AtomicU32,
    /// How often the flag became interlocked since a group of visits had enough uses.
    conversions: AtomicU32,
}

/// How many uses on the home CPU make a visit worthwhile. On an x86-64 virtual machine the fence
/// took 1 to 4 µs if the home was busy, and a pair of atomic instructions took about 10 ns more
/// than the sequence (`atomseq bench biased`, `home:`).
const USES_PER_VISIT: usize = 512;
/// How many visits are judged together.
const VISITS_PER_DECISION: u32 = 8;
/// How many uses in a row make a CPU the home of an interlocked flag.
const EXCLUSIVE_USES: usize = 1 << 14;
/// The maximum of `conversions`: that number doubles at most six times.
const MAX_CONVERSIONS: u32 = 7;

impl Usage {
    /// Decides that the flag becomes interlocked.
    fn interlocked(&self, here: usize) -> usize {
        let before = self.conversions.load(Ordering::Relaxed);
        let now = (before + 1).min(MAX_CONVERSIONS);
        self.conversions.store(now, Ordering::Relaxed);
        self.last.store(here as u32, Ordering::Relaxed);
        INTERLOCKED
    }

    /// Counts a use of an interlocked flag by this CPU. Returns whether this CPU alone has used it
    /// long enough.
    fn count_exclusive_use(&self, here: usize) -> bool {
        if self.last.load(Ordering::Relaxed) != here as u32 {
            self.last.store(here as u32, Ordering::Relaxed);
            self.uses.store(0, Ordering::Relaxed);
            return false;
        }
        let uses = self.uses.load(Ordering::Relaxed) + 1;
        self.uses.store(uses, Ordering::Relaxed);
        uses >> self.conversions.load(Ordering::Relaxed).saturating_sub(1) >= EXCLUSIVE_USES
    }
}

impl Policy for Usage {
    fn next(&self, home: usize, here: usize) -> usize {
        let uses = self.uses.load(Ordering::Relaxed);
        let earlier = self.earlier.load(Ordering::Relaxed) + uses;
        let visits = self.visits.load(Ordering::Relaxed) + 1;
        self.uses.store(0, Ordering::Relaxed);
        if visits == VISITS_PER_DECISION {
            self.visits.store(0, Ordering::Relaxed);
            self.earlier.store(0, Ordering::Relaxed);
            if earlier < USES_PER_VISIT * VISITS_PER_DECISION as usize {
                return self.interlocked(here);
            }
            self.conversions.store(0, Ordering::Relaxed);
        } else {
            self.visits.store(visits, Ordering::Relaxed);
            self.earlier.store(earlier, Ordering::Relaxed);
        }
        // One use is that of the last visit itself.
        let again = uses <= 1 && self.last.load(Ordering::Relaxed) == here as u32;
        self.last.store(here as u32, Ordering::Relaxed);
        if again { here } else { home }
    }
}

impl BiasedFlag {
    /// Clears an interlocked flag, or makes it biased first if one CPU has used it long enough.
    #[inline(never)]
    fn clear_interlocked(&self) {
        let here = current_cpu();
        if self.usage.count_exclusive_use(here) {
            self.usage.uses.store(0, Ordering::Relaxed);
            if self.flag.move_to(here) {
                return self.flag.clear();
            }
        }
        self.flag.clear_interlocked();
    }
}

// SAFETY: `HomeFlag` is set by one caller at a time, and the Release that clears it pairs with the
// Acquire that sets it.
unsafe impl TestAndSet for BiasedFlag {
    type Scope = Machine;
    type GuardMarker = lock_api::GuardSend;
    const NAME: &'static str = "biased-flag";
    const CLEAR: BiasedFlag = BiasedFlag {
        flag: HomeFlag::CLEAR,
        usage: Usage {
            uses: AtomicUsize::new(0),
            earlier: AtomicUsize::new(0),
            visits: AtomicU32::new(0),
            last: AtomicU32::new(u32::MAX),
            conversions: AtomicU32::new(0),
        },
    };

    #[inline(always)]
    fn test_and_set(&self) -> bool {
        self.flag.take() || self.flag.take_slowly(&self.usage)
    }

    #[inline(always)]
    unsafe fn clear(&self) {
        // SAFETY: the caller guarantees that it holds the flag.
        unsafe { self.clear_then_look() }
    }

    #[inline(always)]
    fn is_set(&self) -> bool {
        self.flag.is_set()
    }

    #[inline(always)]
    unsafe fn clear_then_look(&self) {
        if self.flag.is_biased() {
            // Not atomic, because only the holder writes it.
            let uses = self.usage.uses.load(Ordering::Relaxed);
            self.usage.uses.store(uses + 1, Ordering::Relaxed);
            self.flag.clear();
        } else {
            self.clear_interlocked();
        }
    }

    #[inline(always)]
    fn waiter_barrier(&self) {
        self.flag.waiter_barrier();
    }

    fn has_waiter_barrier(&self) -> bool {
        is_waiter_barrier_effective()
    }

    /// The counts of all sequences of the process.
    fn interventions() -> Interventions {
        Interventions {
            restarts: Some(sequence::restarts()),
            ..Interventions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A visit from CPU 1 to a flag whose home is CPU 0, after `uses` uses.
    fn visit(usage: &Usage, uses: usize) -> usize {
        usage.uses.store(uses, Ordering::Relaxed);
        usage.next(0, 1)
    }

    #[test]
    fn a_visit_after_enough_uses_keeps_the_home() {
        let usage = BiasedFlag::CLEAR.usage;
        for _ in 0..10 * VISITS_PER_DECISION {
            assert_eq!(visit(&usage, USES_PER_VISIT), 0);
        }
    }

    #[test]
    fn two_visits_without_a_use_in_between_move_the_home() {
        let usage = BiasedFlag::CLEAR.usage;
        assert_eq!(visit(&usage, 1), 0);
        assert_eq!(visit(&usage, 2), 0);
        assert_eq!(visit(&usage, 1), 1);
    }

    #[test]
    fn visits_with_too_few_uses_make_the_flag_interlocked() {
        let usage = BiasedFlag::CLEAR.usage;
        for _ in 1..VISITS_PER_DECISION {
            assert_eq!(visit(&usage, USES_PER_VISIT - 1), 0);
        }
        assert_eq!(visit(&usage, USES_PER_VISIT - 1), INTERLOCKED);
    }

    /// Returns how many uses in a row make the flag biased again.
    fn uses_until_biased(usage: &Usage) -> usize {
        usage.uses.store(0, Ordering::Relaxed);
        (1..)
            .find(|_| usage.count_exclusive_use(1))
            .expect("it ends")
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes long to interpret")]
    fn enough_exclusive_uses_make_the_flag_biased_again() {
        let usage = BiasedFlag::CLEAR.usage;
        usage.interlocked(1);
        assert_eq!(uses_until_biased(&usage), EXCLUSIVE_USES);
        usage.interlocked(1);
        assert_eq!(uses_until_biased(&usage), 2 * EXCLUSIVE_USES);
        (0..20).for_each(|_| _ = usage.interlocked(1));
        assert_eq!(uses_until_biased(&usage), 1 << 20);
        // Another CPU uses it, and the count starts again.
        assert!(!usage.count_exclusive_use(0));
        assert_eq!(usage.uses.load(Ordering::Relaxed), 0);
    }

    #[cfg(atomseq_sections)]
    #[test]
    fn a_flag_changes_its_home_and_mode() {
        use crate::affinity::on_two_cpus;

        let flag = BiasedFlag::CLEAR;
        let set_and_clear = || {
            assert!(flag.test_and_set());
            // SAFETY: set by this thread.
            unsafe { flag.clear() };
        };
        on_two_cpus(|cpus, move_to| {
            set_and_clear();
            assert_eq!(flag.flag.home(), cpus[0]);
            move_to(cpus[1]);
            set_and_clear();
            assert_eq!(flag.flag.home(), cpus[0]);
            set_and_clear();
            assert_eq!(flag.flag.home(), cpus[1]);
            for visit in 0..2 * VISITS_PER_DECISION as usize {
                move_to(cpus[visit % 2]);
                set_and_clear();
            }
            assert_eq!(flag.flag.home(), INTERLOCKED);
            (0..=EXCLUSIVE_USES).for_each(|_| set_and_clear());
            assert_eq!(flag.flag.home(), cpus[1]);
        });
    }
}
