//! `dcas`: two words that change together.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use atomseq::dcas::{Adjacent, Change, Domain, Mechanism, Word};
use crossbeam_utils::CachePadded;

use super::{Experiment, Method, Threads};
use crate::bench::engine::{Case, Subject};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "dcas",
    about: "reading two words that all threads share, and changing both if they are still as read",
    structure: "dcas::Domain",
    operation: "a change of two words of",
    cases: &[
        (
            "os-assisted",
            "dcas::Domain, OS-assisted: DCAS of two words anywhere",
        ),
        ("k-cas", "dcas::Domain, k-CAS: the portable way"),
        (
            "adjacent",
            "dcas::Adjacent: double-width compare-and-swap of two words side by side",
        ),
        (
            "cas",
            "one AtomicU64, compare_exchange: what one word costs",
        ),
        (
            "seqlock",
            "two words under a sequence lock, which a preempted writer keeps",
        ),
        ("parking_lot", "parking_lot::Mutex<(u64, u64)>"),
    ],
    method: Method::Timed(cases),
    threads: Threads::Crowded,
    beside: None,
};

fn cases(_threads: usize) -> Vec<Case> {
    let words = || [0, 0].map(|word| CachePadded::new(Word::new(word)));
    let domain = |mechanism| Domain::forced(words(), mechanism);
    vec![
        Case::new("os-assisted", Counting(domain(Mechanism::Assisted))),
        Case::new("k-cas", Counting(domain(Mechanism::Kcas))),
        Case::new("adjacent", Counting(Adjacent::new(0, 0))),
        Case::new("cas", Counting(Single::default())),
        Case::new("seqlock", Counting(SequenceLock::default())),
        Case::new("parking_lot", Counting(parking_lot::Mutex::new((0, 0)))),
    ]
}

/// Two words that count the same.
trait Pair: Sync {
    /// Adds to both at once.
    fn add(&self, amount: u64);

    /// Both, once all threads are done.
    fn both(&self) -> (u64, u64);
}

impl Pair for Domain<[CachePadded<Word>; 2]> {
    #[inline(always)]
    fn add(&self, amount: u64) {
        let words = [&*self[0], &*self[1]];
        loop {
            let ([a, b], _) = self.snapshot(words);
            let first = Change::of(words[0], a, a + amount);
            let second = Change::of(words[1], b, b + amount);
            if self.exchange(first, second).is_ok() {
                return;
            }
        }
    }

    fn both(&self) -> (u64, u64) {
        let ([a, b], _) = self.snapshot([&*self[0], &*self[1]]);
        (a, b)
    }
}

impl Pair for Adjacent {
    #[inline(always)]
    fn add(&self, amount: u64) {
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
    #[inline(always)]
    fn add(&self, amount: u64) {
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

/// Two words whose writer makes a number odd.
#[derive(Default)]
struct SequenceLock {
    sequence: CachePadded<AtomicU64>,
    words: [CachePadded<AtomicU64>; 2],
}

impl Pair for SequenceLock {
    #[inline(always)]
    fn add(&self, amount: u64) {
        loop {
            // Acquire: pairs with the Release of the last writer.
            let seen = self.sequence.load(Ordering::Acquire);
            if seen.is_multiple_of(2) {
                let taken = self.sequence.compare_exchange_weak(
                    seen,
                    seen + 1,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                if taken.is_ok() {
                    // Release: pairs with a reader's acquire fence.
                    fence(Ordering::Release);
                    for word in &self.words {
                        word.store(word.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
                    }
                    self.sequence.store(seen + 2, Ordering::Release);
                    return;
                }
            }
            spin_loop();
        }
    }

    fn both(&self) -> (u64, u64) {
        let [a, b] = [0, 1].map(|index: usize| self.words[index].load(Ordering::Relaxed));
        (a, b)
    }
}

impl Pair for parking_lot::Mutex<(u64, u64)> {
    #[inline(always)]
    fn add(&self, amount: u64) {
        let mut both = self.lock();
        both.0 += amount;
        both.1 += amount;
    }

    fn both(&self) -> (u64, u64) {
        *self.lock()
    }
}

struct Counting<P>(P);

impl<P: Pair> Subject for Counting<P> {
    fn run(&self, _thread: usize, operations: u64) {
        for _ in 0..operations {
            self.0.add(black_box(1));
        }
    }

    fn check(&self, operations: u64) -> Result<(), String> {
        match self.0.both() {
            (a, b) if a == operations && b == operations => Ok(()),
            (a, b) => Err(format!(
                "the words are {a} and {b} where {operations} were added"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::UnsafeCell;

    use super::*;
    use crate::bench::engine::GRAIN;

    /// Forgets the second word now and then.
    #[derive(Default)]
    struct Careless(UnsafeCell<(u64, u64)>);

    // SAFETY: the test has one thread.
    unsafe impl Sync for Careless {}

    impl Pair for Careless {
        fn add(&self, amount: u64) {
            // SAFETY: as above.
            let both = unsafe { &mut *self.0.get() };
            both.0 += amount;
            both.1 += amount * u64::from(!both.0.is_multiple_of(8));
        }

        fn both(&self) -> (u64, u64) {
            // SAFETY: as above.
            unsafe { *self.0.get() }
        }
    }

    #[test]
    fn the_check_tells_both_words_from_one() {
        for case in cases(1) {
            assert!(!case.name.is_empty());
        }
        let counting = Counting(SequenceLock::default());
        counting.run(0, GRAIN);
        assert_eq!(counting.check(GRAIN), Ok(()));
        let counting = Counting(Careless::default());
        counting.run(0, GRAIN);
        assert!(counting.check(GRAIN).is_err());
    }
}
