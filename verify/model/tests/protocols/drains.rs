//! Sums that are drained while sections add to them: every addition is in exactly one drained sum,
//! and no sum is negative.

use std::sync::Arc;

use crate::baseline;
use crate::sync::Size::{Large, Small};
use crate::sync::{AtomicUsize, Ordering, fails, holds, thread};

/// How sums are drained and added to.
#[derive(Clone, Copy)]
struct Rules {
    drain: fn(&Sums) -> usize,
    add_slowly: fn(&Sums),
}

/// As the library does.
const ALL: Rules = Rules {
    drain: |sums| baseline::drain(&sums.drained, || sums.total()),
    add_slowly: |sums| {
        sums.overflow.fetch_add(1, Ordering::Relaxed);
    },
};

/// A counter on two CPUs.
struct Sums {
    words: [AtomicUsize; 2],
    overflow: AtomicUsize,
    drained: AtomicUsize,
}

impl Sums {
    fn new() -> Arc<Sums> {
        Arc::new(Sums {
            words: [AtomicUsize::new(0), AtomicUsize::new(0)],
            overflow: AtomicUsize::new(0),
            drained: AtomicUsize::new(0),
        })
    }

    /// Adds as an uninterrupted section does; no two run on one CPU at the same time.
    fn add(&self, cpu: usize) {
        let value = self.words[cpu].load(Ordering::Relaxed);
        self.words[cpu].store(value + 1, Ordering::Relaxed);
    }

    fn total(&self) -> usize {
        let words = self.words.iter().chain([&self.overflow]);
        words.map(|word| word.load(Ordering::Relaxed)).sum()
    }
}

/// A thread adds twice on one CPU, on the slow path in between, then on another CPU; one or two
/// others drain.
fn add_and_drain(rules: Rules, drains: usize) {
    let sums = Sums::new();
    let adding = {
        let sums = sums.clone();
        thread::spawn(move || {
            sums.add(0);
            (rules.add_slowly)(&sums);
            sums.add(0);
            sums.add(1);
        })
    };
    let draining: Vec<_> = (1..drains)
        .map(|_| {
            let sums = sums.clone();
            thread::spawn(move || (rules.drain)(&sums))
        })
        .collect();
    let mut drained = vec![(rules.drain)(&sums)];
    let since = baseline::since(&sums.drained, || sums.total());
    assert!(since <= 4, "a sum is negative: {}", since as isize);
    drained.extend(draining.into_iter().map(|drain| drain.join().unwrap()));
    adding.join().unwrap();
    drained.push((rules.drain)(&sums));
    assert!(
        drained.iter().all(|sum| *sum <= 4),
        "a sum is negative: {drained:?}"
    );
    assert_eq!(
        drained.iter().sum::<usize>(),
        4,
        "additions lost or doubled: {drained:?}"
    );
}

/// A section runs on CPU 0 while another thread takes the slow path, and one drains.
fn two_add_and_drain(rules: Rules) {
    let sums = Sums::new();
    let adding = {
        let sums = sums.clone();
        thread::spawn(move || sums.add(0))
    };
    let slowly = {
        let sums = sums.clone();
        thread::spawn(move || (rules.add_slowly)(&sums))
    };
    let mut drained = (rules.drain)(&sums);
    adding.join().unwrap();
    slowly.join().unwrap();
    drained += (rules.drain)(&sums);
    assert_eq!(drained, 2, "additions lost or doubled");
}

#[test]
fn every_addition_is_drained_once() {
    holds("drain: one", Small, || add_and_drain(ALL, 1));
    holds("drain: two", Large, || add_and_drain(ALL, 2));
    holds("drain: two that add", Small, || two_add_and_drain(ALL));
}

/// A gauge is set while a section and the slow path add to it.
fn add_and_set(replace: fn(&Sums, usize) -> usize) {
    let sums = Sums::new();
    let adding = {
        let sums = sums.clone();
        thread::spawn(move || {
            sums.add(0);
            (ALL.add_slowly)(&sums);
        })
    };
    let replaced = replace(&sums, 7);
    let value = baseline::signed_since(&sums.drained, || sums.total());
    assert!(
        (7..=9).contains(&value),
        "additions lost or doubled: {value}"
    );
    adding.join().unwrap();
    let value = baseline::signed_since(&sums.drained, || sums.total());
    let kept = usize::try_from(value).unwrap() - 7;
    assert_eq!(replaced + kept, 2, "additions lost or doubled");
}

/// Two threads set a gauge while a section and the slow path add to it. Each may miss the other's
/// call, but no addition.
fn add_and_set_twice(replace: fn(&Sums, usize) -> usize) {
    let sums = Sums::new();
    let adding = {
        let sums = sums.clone();
        thread::spawn(move || {
            sums.add(0);
            (ALL.add_slowly)(&sums);
        })
    };
    let setting = {
        let sums = sums.clone();
        thread::spawn(move || replace(&sums, 1))
    };
    let replaced = replace(&sums, 7);
    adding.join().unwrap();
    let replaced = replaced.wrapping_add(setting.join().unwrap());
    let value = baseline::signed_since(&sums.drained, || sums.total()) as usize;
    let all = replaced.wrapping_add(value);
    assert_eq!(all, 2 + 7 + 1, "additions lost or doubled");
}

#[test]
fn every_addition_is_replaced_or_kept() {
    holds("set: a gauge", Small, || {
        add_and_set(|sums, value| baseline::replace(&sums.drained, value, || sums.total()));
    });
    holds("set: by two", Large, || {
        add_and_set_twice(|sums, value| baseline::replace(&sums.drained, value, || sums.total()));
    });
    fails("set: by two, a load and a store", LOST, Large, || {
        add_and_set_twice(|sums, value| {
            let before = sums.drained.load(Ordering::Acquire);
            let total = sums.total();
            let after = total.wrapping_sub(value);
            sums.drained.store(after, Ordering::Release);
            total.wrapping_sub(before)
        });
    });
    fails("set: the total read twice", LOST, Small, || {
        add_and_set(|sums, value| {
            let replaced = sums.total();
            baseline::replace(&sums.drained, value, || sums.total());
            replaced
        });
    });
}

const LOST: &str = "additions lost or doubled";

#[test]
fn wrong_drains_are_found() {
    let zeroing = Rules {
        drain: |sums| {
            let words = sums.words.iter().chain([&sums.overflow]);
            words.map(|word| word.swap(0, Ordering::AcqRel)).sum()
        },
        ..ALL
    };
    fails("drain: the words set to zero", LOST, Small, move || {
        add_and_drain(zeroing, 1);
    });
    let unasked = Rules {
        drain: |sums| {
            let before = sums.drained.load(Ordering::Acquire);
            let total = sums.total();
            sums.drained.store(total, Ordering::Release);
            total - before
        },
        ..ALL
    };
    fails("drain: a load and a store", "", Large, move || {
        add_and_drain(unasked, 2);
    });
    let on_the_word = Rules {
        add_slowly: |sums| {
            sums.words[0].fetch_add(1, Ordering::Relaxed);
        },
        ..ALL
    };
    fails(
        "drain: the slow path adds to a section's word",
        LOST,
        Small,
        move || {
            two_add_and_drain(on_the_word);
        },
    );
}

/// `baseline::drain` and the sum after it, without an ordering of the totals behind the base line.
#[allow(dead_code, reason = "shuttle knows no orderings")]
pub fn unordered_drains() {
    let unordered = Rules {
        drain: |sums| {
            let mut before = sums.drained.load(Ordering::Relaxed);
            loop {
                let now = sums.total();
                match sums.drained.compare_exchange(
                    before,
                    now,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => return now.wrapping_sub(before),
                    Err(meanwhile) => before = meanwhile,
                }
            }
        },
        ..ALL
    };
    add_and_drain(unordered, 2);
}
