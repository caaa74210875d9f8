//! The models: the threads' actions, and the invariants at the end.

use std::sync::Arc;

use verify_model::controls::shuttle_thread as thread;

use crate::Library;
use crate::sync::{AtomicU64, Ordering};

/// Returns all models by name.
pub fn all<L: Library>() -> [(&'static str, fn()); 7] {
    [
        ("three that share a word each", chain::<L>),
        ("two that count in both words", count::<L>),
        ("a reader of what changes often", read::<L>),
        ("one word only", one::<L>),
        ("a number that the version reaches later", later::<L>),
        ("a value that comes back", comes_back::<L>),
        ("values that come back, and three threads", come_back::<L>),
    ]
}

/// Words, and the version that covers them.
struct Words<const N: usize> {
    version: AtomicU64,
    words: [AtomicU64; N],
}

impl<const N: usize> Words<N> {
    fn new(values: [u64; N]) -> Arc<Words<N>> {
        Arc::new(Words {
            version: AtomicU64::new(1),
            words: values.map(AtomicU64::new),
        })
    }

    /// Returns the values of one time, and the version of that time.
    fn snapshot<L: Library>(&self) -> ([u64; N], u64) {
        loop {
            let number = L::begin(&self.version);
            let values = std::array::from_fn(|word| L::load(&self.words[word]));
            if L::is_still(&self.version, number) {
                return (values, number);
            }
        }
    }

    /// Changes words to the result of `update` for all values, if it returns one.
    fn update<L: Library, const M: usize>(
        &self,
        update: impl Fn([u64; N]) -> Option<[(usize, u64); M]>,
    ) -> bool {
        loop {
            let (values, number) = self.snapshot::<L>();
            let Some(changes) = update(values) else {
                return false;
            };
            let parts = changes.map(|(word, new)| (&self.words[word], values[word], new));
            if L::exchange(&self.version, number, parts) {
                return true;
            }
        }
    }

    /// Checks, when the threads have exited, that the words hold exactly these values, after this
    /// many changes.
    fn end<L: Library>(&self, values: [u64; N], changes: u64) {
        let content = std::array::from_fn(|word: usize| self.words[word].load(Ordering::Relaxed));
        assert_eq!(content, values);
        assert_eq!(self.version.load(Ordering::Relaxed), 1 + changes);
        assert!(!L::is_one_taken(), "a descriptor is left behind");
    }
}

/// Three changes, any two of which have a word in common: exactly one succeeds.
fn chain<L: Library>() {
    L::anew(3);
    let words = Words::new([0, 0, 0]);
    let change = |number: usize, words: &Words<3>| {
        let next = (number + 1) % 3;
        let new = number as u64 + 1;
        words.update::<L, 2>(|values| {
            (values[number] == 0 && values[next] == 0).then_some([(number, new), (next, new)])
        })
    };
    let others = [1, 2].map(|number| {
        let words = words.clone();
        thread::spawn(move || change(number, &words))
    });
    let first = change(0, &words);
    let [second, third] = others.map(|other| other.join().unwrap());
    let succeeded: Vec<usize> = (0..3)
        .filter(|number| [first, second, third][*number])
        .collect();
    let [one] = *succeeded else {
        panic!("{succeeded:?} succeeded");
    };
    let mut right = [0; 3];
    right[one] = one as u64 + 1;
    right[(one + 1) % 3] = one as u64 + 1;
    words.end::<L>(right, 1);
}

/// Adds one to both words, which are always equal.
fn add<L: Library>(words: &Words<2>) {
    words.update::<L, 2>(|[first, second]| {
        assert_eq!(first, second, "a half of another change was seen");
        Some([(0, first + 1), (1, second + 1)])
    });
}

fn count<L: Library>() {
    L::anew(2);
    let words = Words::new([0, 0]);
    let other = {
        let words = words.clone();
        thread::spawn(move || (0..3).for_each(|_| add::<L>(&words)))
    };
    (0..3).for_each(|_| add::<L>(&words));
    other.join().unwrap();
    words.end::<L>([6, 6], 6);
}

/// Words that only grow, and are equal at any time.
fn read<L: Library>() {
    L::anew(2);
    let words = Words::new([0, 0]);
    let reader = {
        let words = words.clone();
        thread::spawn(move || {
            let mut last = 0;
            for _ in 0..3 {
                let ([first, second], number) = words.snapshot::<L>();
                assert!(
                    last <= first && first == second,
                    "{last}, {first}, {second}"
                );
                assert_eq!(first, number - 1);
                last = second;
            }
        })
    };
    (0..5).for_each(|_| add::<L>(&words));
    reader.join().unwrap();
    words.end::<L>([5, 5], 5);
}

/// Each thread changes one word, and compares another one.
fn one<L: Library>() {
    L::anew(3);
    let words = Words::new([0, 0, 7]);
    let grow = |word: usize, words: &Words<3>| {
        for _ in 0..2 {
            words.update::<L, 2>(|values| Some([(word, values[word] + 1), (2, 7)]));
        }
    };
    let others = [0, 1].map(|word| {
        let words = words.clone();
        thread::spawn(move || grow(word, &words))
    });
    grow(0, &words);
    for other in others {
        other.join().unwrap();
    }
    words.end::<L>([4, 2, 7], 6);
}

/// While one thread counts in both words, another one stores them at a version number from
/// elsewhere, which may not have been reached yet when it calls.
fn later<L: Library>() {
    L::anew(2);
    let words = Words::new([0, 0]);
    let other = {
        let words = words.clone();
        thread::spawn(move || {
            let [first, second] = &words.words;
            L::store_pair_if(&words.version, 2, [(first, 8), (second, 8)])
        })
    };
    (0..2).for_each(|_| add::<L>(&words));
    let values = match other.join().unwrap() {
        true => ([9, 9], 3),
        false => ([2, 2], 2),
    };
    words.end::<L>(values.0, values.1);
}

/// The first word alternates, the second one counts how often: a late helper or owner finds the old
/// value again.
fn toggle<L: Library>(words: &Words<2>) {
    words.update::<L, 2>(|[side, count]| {
        assert_eq!(side, count % 2, "a late change");
        Some([(0, 1 - side), (1, count + 1)])
    });
}

fn comes_back<L: Library>() {
    L::anew(2);
    let words = Words::new([0, 0]);
    let other = {
        let words = words.clone();
        thread::spawn(move || (0..3).for_each(|_| toggle::<L>(&words)))
    };
    (0..4).for_each(|_| toggle::<L>(&words));
    other.join().unwrap();
    words.end::<L>([1, 7], 7);
}

/// Three threads toggle this many times each.
fn toggles<L: Library>(times: [u64; 3]) {
    L::anew(3);
    let words = Words::new([0, 0]);
    let others = [times[1], times[2]].map(|times| {
        let words = words.clone();
        thread::spawn(move || (0..times).for_each(|_| toggle::<L>(&words)))
    });
    (0..times[0]).for_each(|_| toggle::<L>(&words));
    for other in others {
        other.join().unwrap();
    }
    let all: u64 = times.iter().sum();
    words.end::<L>([all % 2, all], all);
}

pub fn come_back<L: Library>() {
    toggles::<L>([2, 1, 3]);
}

pub fn come_back_once<L: Library>() {
    toggles::<L>([1, 1, 1]);
}
