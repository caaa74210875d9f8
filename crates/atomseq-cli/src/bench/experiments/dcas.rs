//! `dcas`: two words that change together.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use atomseq::dcas::{Adjacent, Cell, Change, Covered, Domain, Mechanism};

use super::{Experiment, Method, Threads, cases};
#[cfg(target_arch = "x86_64")]
use crate::bench::peers::crate_mwcas::CrateMwcas;
use crate::bench::peers::pairs::CrateKcas;
use crate::bench::peers::pairs::SequenceLock;
use crate::bench::workloads::pair::{Counting, Pair};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "dcas",
    about: "reading two words that all threads share, and changing both if neither has changed",
    cases: cases! {
        "os-assisted", "dcas::Domain, OS-assisted, two words anywhere",
            |threads| Counting::boxed(threads, domain(Mechanism::Assisted));
        "k-cas", "dcas::Domain, k-CAS, which is portable",
            |threads| Counting::boxed(threads, domain(Mechanism::Kcas));
        "adjacent", "dcas::Adjacent, double-width compare-and-swap of two adjacent words",
            |threads| Counting::boxed(threads, Adjacent::new(0, 0));
        "cas", "one AtomicU64, compare_exchange: the cost of one word",
            |threads| Counting::boxed(threads, Single::default());
        "seqlock", "two words under a sequence lock; a preempted writer keeps it",
            |threads| Counting::boxed(threads, SequenceLock::default());
        "parking_lot", "parking_lot::Mutex<(u64, u64)>",
            |threads| Counting::boxed(threads, parking_lot::Mutex::new((0, 0)));
        "crate-kcas", "kcas 0.1.0: multi-word compare-and-swap without allocation",
            |threads| Counting::boxed(threads, CrateKcas::default());
        #[cfg(target_arch = "x86_64")]
        "crate-mwcas", "mwcas 0.2.0: multi-word compare-and-swap, freed by epochs",
            |threads| Counting::boxed(threads, CrateMwcas::default());
    },
    peers: &["cas", "seqlock", "parking_lot", "crate-kcas", "crate-mwcas"],
    method: Method::Timed,
    threads: Threads::Crowded,
    beside: None,
};

fn domain(mechanism: Mechanism) -> Domain<[Padded; 2]> {
    Domain::forced(Default::default(), mechanism)
}

/// A word on cache lines of its own.
#[derive(Covered, Default)]
#[repr(align(128))]
pub struct Padded {
    word: Cell,
}

impl Deref for Padded {
    type Target = Cell;

    #[inline(always)]
    fn deref(&self) -> &Cell {
        &self.word
    }
}

impl Pair for Domain<[Padded; 2]> {
    type Hand = ();

    fn hand(&self) {}

    #[inline(always)]
    fn add(&self, _hand: &mut (), amount: u64) {
        let words = [&*self[0], &*self[1]];
        loop {
            let [a, b] = self.load_all(words);
            let first = Change::of(words[0], a, a + amount);
            let second = Change::of(words[1], b, b + amount);
            if self.compare_exchange_pair(first, second).is_ok() {
                return;
            }
        }
    }

    fn both(&self) -> (u64, u64) {
        let [a, b] = self.load_all([&*self[0], &*self[1]]);
        (a, b)
    }
}

impl Pair for Adjacent {
    type Hand = ();

    fn hand(&self) {}

    #[inline(always)]
    fn add(&self, _hand: &mut (), amount: u64) {
        let mut now = self.guess();
        loop {
            match self.compare_exchange(now, (now.0 + amount, now.1 + amount)) {
                Ok(()) => return,
                Err(found) => now = found,
            }
        }
    }

    fn both(&self) -> (u64, u64) {
        self.load()
    }
}

/// One word for both: what a compare-and-swap alone costs.
#[derive(Default)]
struct Single(AtomicU64);

impl Pair for Single {
    type Hand = ();

    fn hand(&self) {}

    #[inline(always)]
    fn add(&self, _hand: &mut (), amount: u64) {
        // Relaxed: a number on its own.
        let mut now = self.0.load(Ordering::Relaxed);
        while let Err(found) =
            self.0
                .compare_exchange_weak(now, now + amount, Ordering::SeqCst, Ordering::Relaxed)
        {
            now = found;
        }
    }

    fn both(&self) -> (u64, u64) {
        let sum = self.0.load(Ordering::Relaxed);
        (sum, sum)
    }
}

impl Pair for parking_lot::Mutex<(u64, u64)> {
    type Hand = ();

    fn hand(&self) {}

    #[inline(always)]
    fn add(&self, _hand: &mut (), amount: u64) {
        let mut both = self.lock();
        both.0 += amount;
        both.1 += amount;
    }

    fn both(&self) -> (u64, u64) {
        *self.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::GRAIN;

    #[test]
    fn every_case_adds_to_both_words() {
        for case in EXPERIMENT.make(1, |_| true) {
            case.subject.run(0, GRAIN);
            assert_eq!(case.subject.check(GRAIN), Ok(()), "{}", case.name);
        }
    }
}
