//! By a sequence that threads of the same CPU cannot come between, on the CPU that it is worth most on.

use crate::mutex::bias::{Bias, INTERLOCKED, Policy};
use crate::mutex::home::current_cpu;
use crate::mutex::{Interventions, TestAndSet};
use crate::scope::Machine;
use crate::sequence;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// [`OnCpu`](super::OnCpu) that moves: to the CPU that alone uses it, and to an atomic instruction where several CPUs do.
///
/// Scope [`Machine`]. At home, setting it costs no atomic instruction, and clearing it, anywhere, is three stores' worth of work. A visit
/// from another CPU costs three system calls, two atomic instructions and an interrupt of the home. So it counts: while
/// each visit is paid for by 512 uses at home, the home stays; a CPU that visits twice with nobody in between becomes the
/// home; and when eight visits in a row were not paid for, it is interlocked: one atomic instruction to set it
/// and one to clear it, for everybody. It is biased again, to one CPU, once that CPU alone has used it 16,384 times in a row, and
/// after each disappointment twice as often, up to a million.
///
/// Else as [`OnCpu`](super::OnCpu). B91 3.1.1 leaves multiprocessors to interlocked instructions; the home and its visitors
/// are atomseq's.
#[derive(Debug)]
pub struct Rehoming {
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

/// How many uses at home pay for a visit. A visit costs about 5 us, and an atomic instruction's pair about 10 ns more than a
/// sequence's (x86-64 virtual machine, `atomseq bench biased`).
const PAID: usize = 512;
/// So many visits are looked at together.
const VISITS: u32 = 8;
/// So often one CPU has to use it in a row to become its home.
const ALONE: usize = 1 << 14;
/// Twice as often after each disappointment, so many times.
const MOST_DISAPPOINTMENTS: u32 = 7;

impl Habits {
    fn interlocked(&self, here: usize) -> usize {
        let before = self.disappointments.load(Ordering::Relaxed);
        let now = (before + 1).min(MOST_DISAPPOINTMENTS);
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

impl Rehoming {
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

// SAFETY: `Bias` is set for one caller at a time, and cleared with Release before it is set with Acquire.
unsafe impl TestAndSet for Rehoming {
    type Scope = Machine;
    type GuardMarker = lock_api::GuardSend;
    const NAME: &'static str = "rehoming";
    const CLEAR: Rehoming = Rehoming {
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
    fn settle(&self) {
        self.flag.settle();
    }

    /// All sequences' of the process.
    fn interventions() -> Interventions {
        Interventions {
            restarts: Some(sequence::restarts()),
            ..Interventions::default()
        }
    }
}
