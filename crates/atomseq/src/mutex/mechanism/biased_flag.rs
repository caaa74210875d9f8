//! By a sequence that threads of the same CPU cannot come between, on the CPU that it is worth most
//! on.

use crate::mutex::bias::{Bias, INTERLOCKED, Policy};
use crate::mutex::home::current_cpu;
use crate::mutex::{Interventions, TestAndSet, barrier};
use crate::scope::Machine;
use crate::sequence;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// [`OnCpu`](super::OnCpu) that moves: to the CPU that alone uses it, and to an atomic instruction
/// where several CPUs do.
///
/// Scope [`Machine`]. At home, setting it costs no atomic instruction, and clearing it, anywhere,
/// none either. A visit from another CPU costs three system calls, four atomic instructions and an
/// interrupt of the home. So it counts, for eight visits together: while they are paid for by 512
/// uses each on average, the home stays; a CPU that visits twice with nobody in between becomes the
/// home; and when eight visits were not paid for, it is interlocked: one atomic instruction to set
/// it, a store to clear it, for everybody. It is biased again, to one CPU, once that CPU alone has
/// used it 16,384 times in a row, and after each disappointment twice as often, up to a million.
///
/// Else as [`OnCpu`](super::OnCpu). B91 3.1.1 leaves multiprocessors to interlocked instructions;
/// the home and its visitors are atomseq's.
#[derive(Debug)]
pub struct BiasedFlag {
    flag: Bias,
    habits: Habits,
}

/// What its users do. Read and written by holders only, so nothing here needs an ordering.
#[derive(Debug)]
struct Habits {
    /// How often it was cleared: biased, since the last visit; interlocked, in a row by one CPU.
    uses: AtomicUsize,
    /// The same before the last visit, from the first of these visits on.
    earlier: AtomicUsize,
    visits: AtomicU32,
    /// The last visitor's CPU; interlocked, the last holder's.
    last: AtomicU32,
    /// How often it became interlocked since visits were last paid for.
    disappointments: AtomicU32,
}

/// How many uses at home pay for a visit. On an x86-64 virtual machine the fence took 1 to 4 us
/// where the home was busy, and a pair of atomic instructions about 10 ns more than the sequence
/// (`atomseq bench biased`, `home:`).
const PAID: usize = 512;
/// So many visits are looked at together.
const VISITS: u32 = 8;
/// So often one CPU has to use it in a row to become its home.
const ALONE: usize = 1 << 14;
/// Twice as often after each disappointment, so many times.
const MAX_DISAPPOINTMENTS: u32 = 7;

impl Habits {
    fn interlocked(&self, here: usize) -> usize {
        let before = self.disappointments.load(Ordering::Relaxed);
        let now = (before + 1).min(MAX_DISAPPOINTMENTS);
        self.disappointments.store(now, Ordering::Relaxed);
        self.last.store(here as u32, Ordering::Relaxed);
        INTERLOCKED
    }

    /// Counts a use by this CPU of an interlocked flag; true if it has been alone for long.
    fn alone(&self, here: usize) -> bool {
        if self.last.load(Ordering::Relaxed) != here as u32 {
            self.last.store(here as u32, Ordering::Relaxed);
            self.uses.store(0, Ordering::Relaxed);
            return false;
        }
        let uses = self.uses.load(Ordering::Relaxed) + 1;
        self.uses.store(uses, Ordering::Relaxed);
        uses >> self
            .disappointments
            .load(Ordering::Relaxed)
            .saturating_sub(1)
            >= ALONE
    }
}

impl Policy for Habits {
    fn next(&self, home: usize, here: usize) -> usize {
        let uses = self.uses.load(Ordering::Relaxed);
        let earlier = self.earlier.load(Ordering::Relaxed) + uses;
        let visits = self.visits.load(Ordering::Relaxed) + 1;
        self.uses.store(0, Ordering::Relaxed);
        if visits == VISITS {
            self.visits.store(0, Ordering::Relaxed);
            self.earlier.store(0, Ordering::Relaxed);
            if earlier < PAID * VISITS as usize {
                return self.interlocked(here);
            }
            self.disappointments.store(0, Ordering::Relaxed);
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
    /// What is done about one that was not taken at home or by a visit.
    #[inline(never)]
    fn clear_interlocked(&self) {
        let here = current_cpu();
        if self.habits.alone(here) {
            self.habits.uses.store(0, Ordering::Relaxed);
            if self.flag.move_to(here) {
                return self.flag.clear();
            }
        }
        self.flag.clear_interlocked();
    }
}

// SAFETY: `Bias` is set for one caller at a time, and cleared with Release before it is set with
// Acquire.
unsafe impl TestAndSet for BiasedFlag {
    type Scope = Machine;
    type GuardMarker = lock_api::GuardSend;
    const NAME: &'static str = "biased-flag";
    const CLEAR: BiasedFlag = BiasedFlag {
        flag: Bias::CLEAR,
        habits: Habits {
            uses: AtomicUsize::new(0),
            earlier: AtomicUsize::new(0),
            visits: AtomicU32::new(0),
            last: AtomicU32::new(u32::MAX),
            disappointments: AtomicU32::new(0),
        },
    };

    #[inline(always)]
    fn test_and_set(&self) -> bool {
        self.flag.take() || self.flag.take_slowly(&self.habits)
    }

    #[inline(always)]
    unsafe fn clear(&self) {
        // SAFETY: the same.
        unsafe { self.clear_then_look() }
    }

    #[inline(always)]
    fn is_set(&self) -> bool {
        self.flag.is_set()
    }

    #[inline(always)]
    unsafe fn clear_then_look(&self) {
        if self.flag.is_biased() {
            // Not atomic: the holder alone does it.
            let uses = self.habits.uses.load(Ordering::Relaxed);
            self.habits.uses.store(uses + 1, Ordering::Relaxed);
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
        barrier::is_available()
    }

    /// All sequences' of the process.
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

    /// A visit from CPU 1 to one at home on CPU 0, after so many uses.
    fn visit(habits: &Habits, uses: usize) -> usize {
        habits.uses.store(uses, Ordering::Relaxed);
        habits.next(0, 1)
    }

    #[test]
    fn a_visitor_that_is_paid_for_leaves_the_home_where_it_is() {
        let habits = BiasedFlag::CLEAR.habits;
        for _ in 0..10 * VISITS {
            assert_eq!(visit(&habits, PAID), 0);
        }
    }

    #[test]
    fn whoever_visits_twice_with_nobody_in_between_is_at_home() {
        let habits = BiasedFlag::CLEAR.habits;
        assert_eq!(visit(&habits, 1), 0);
        assert_eq!(visit(&habits, 2), 0);
        assert_eq!(visit(&habits, 1), 1);
    }

    #[test]
    fn visits_that_are_not_paid_for_make_it_interlocked() {
        let habits = BiasedFlag::CLEAR.habits;
        for _ in 1..VISITS {
            assert_eq!(visit(&habits, PAID - 1), 0);
        }
        assert_eq!(visit(&habits, PAID - 1), INTERLOCKED);
    }

    /// So many uses in a row it takes to be biased again.
    fn uses_alone(habits: &Habits) -> usize {
        habits.uses.store(0, Ordering::Relaxed);
        (1..).find(|_| habits.alone(1)).expect("it ends")
    }

    #[test]
    fn who_is_alone_for_long_enough_is_at_home_again() {
        let habits = BiasedFlag::CLEAR.habits;
        habits.interlocked(1);
        assert_eq!(uses_alone(&habits), ALONE);
        habits.interlocked(1);
        assert_eq!(uses_alone(&habits), 2 * ALONE);
        (0..20).for_each(|_| _ = habits.interlocked(1));
        assert_eq!(uses_alone(&habits), 1 << 20);
        // Somebody else, and all begins again.
        assert!(!habits.alone(0));
        assert_eq!(habits.uses.load(Ordering::Relaxed), 0);
    }

    #[cfg(atomseq_sections)]
    #[test]
    fn a_flag_goes_through_all_of_that() {
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
            for visit in 0..2 * VISITS as usize {
                move_to(cpus[visit % 2]);
                set_and_clear();
            }
            assert_eq!(flag.flag.home(), INTERLOCKED);
            (0..=ALONE).for_each(|_| set_and_clear());
            assert_eq!(flag.flag.home(), cpus[1]);
        });
    }
}
