//! The models: what threads do, and what has to be true in the end.

use std::sync::Arc;

use shuttle::thread;

use crate::Library;
use crate::sync::AtomicU64;

/// All of them by name.
pub fn all<L: Library>() -> [(&'static str, fn()); 7] {
    [
        ("three that share a word each", chain::<L>),
        ("two that count in both words", count::<L>),
        ("a reader of what changes often", read::<L>),
        ("comparisons only", compare::<L>),
        ("one that is met again and again", meet::<L>),
        ("a helper that comes late", late_helper::<L>),
        ("an owner that comes late", late_owner::<L>),
    ]
}

fn words<const N: usize>(values: [u64; N]) -> Arc<[AtomicU64; N]> {
    Arc::new(values.map(AtomicU64::new))
}

/// What nothing refers to can be used again.
fn nothing_leaks<L: Library>(words: usize) {
    let bound = L::bound();
    assert!(bound <= words, "{bound} descriptors for {words} words");
}

/// Of three exchanges of which any two have a word in common one succeeds.
fn chain<L: Library>() {
    L::anew(8);
    let words = words([0, 0, 0]);
    let exchange = |number: usize, words: &[AtomicU64; 3]| {
        let next = (number + 1) % 3;
        let new = number as u64 + 1;
        L::exchange([(&words[number], 0, new), (&words[next], 0, new)])
    };
    let others = [1, 2].map(|number| {
        let words = words.clone();
        thread::spawn(move || exchange(number, &words))
    });
    let first = exchange(0, &words);
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
    assert_eq!(
        [0, 1, 2].map(|number: usize| L::load(&words[number])),
        right
    );
    nothing_leaks::<L>(3);
}

/// Adds one to both words, which are always the same.
fn add<L: Library>(words: &[AtomicU64; 2]) {
    loop {
        let old = [L::load(&words[0]), L::load(&words[1])];
        let parts = [0, 1].map(|number| (&words[number], old[number], old[number] + 1));
        if L::exchange(parts) {
            assert_eq!(old[0], old[1], "a half of another exchange was seen");
            return;
        }
    }
}

fn count<L: Library>() {
    L::anew(6);
    let words = words([0, 0]);
    let other = {
        let words = words.clone();
        thread::spawn(move || (0..3).for_each(|_| add::<L>(&words)))
    };
    (0..3).for_each(|_| add::<L>(&words));
    other.join().unwrap();
    assert_eq!([0, 1].map(|number: usize| L::load(&words[number])), [6, 6]);
    nothing_leaks::<L>(2);
}

/// Words that only grow.
fn read<L: Library>() {
    L::anew(6);
    let words = words([0, 0]);
    let reader = {
        let words = words.clone();
        thread::spawn(move || {
            let mut last = 0;
            for _ in 0..3 {
                let first = L::load(&words[0]);
                let second = L::load(&words[1]);
                assert!(
                    last <= first && first <= second,
                    "{last}, {first}, {second}"
                );
                last = second;
                assert!(last <= 5, "{last} was never there");
            }
        })
    };
    (0..5).for_each(|_| add::<L>(&words));
    reader.join().unwrap();
    nothing_leaks::<L>(2);
}

/// Nothing that they compare changes, so all succeed.
fn compare<L: Library>() {
    L::anew(8);
    let words = words([1, 1, 5]);
    let both = |words: &[AtomicU64; 3]| {
        for _ in 0..2 {
            assert!(L::exchange([(&words[0], 1, 1), (&words[1], 1, 1)]));
        }
    };
    let others = [0, 1].map(|number| {
        let words = words.clone();
        thread::spawn(move || match number {
            0 => both(&words),
            _ => assert!(L::exchange([(&words[2], 5, 6), (&words[1], 1, 1)])),
        })
    });
    both(&words);
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(
        [0, 1, 2].map(|number: usize| L::load(&words[number])),
        [1, 1, 6]
    );
    nothing_leaks::<L>(3);
}

/// Two go on and on over one word that they have in common, and meet a third one there, whose exchange comes once: so its
/// helpers come late.
fn meet<L: Library>() {
    L::anew(8);
    let words = words([0, 0, 0]);
    let adds = |own: usize, words: &[AtomicU64; 3]| {
        for _ in 0..3 {
            loop {
                let old = [L::load(&words[own]), L::load(&words[1])];
                if L::exchange([
                    (&words[own], old[0], old[0] + 1),
                    (&words[1], old[1], old[1] + 1),
                ]) {
                    break;
                }
            }
        }
    };
    let other = {
        let words = words.clone();
        thread::spawn(move || adds(2, &words))
    };
    let once = {
        let words = words.clone();
        thread::spawn(move || {
            u64::from(L::exchange([
                (&words[0], 0, 10),
                (&words[1], 0, 10),
                (&words[2], 0, 10),
            ]))
        })
    };
    adds(0, &words);
    other.join().unwrap();
    let ten = 10 * once.join().unwrap();
    let right = [3 + ten, 6 + ten, 3 + ten];
    assert_eq!(
        [0, 1, 2].map(|number: usize| L::load(&words[number])),
        right
    );
    nothing_leaks::<L>(3);
}

/// The first exchange may find the second word as it was before somebody changed it, while a helper finds it after that and goes on to
/// the third; and then its descriptor is used for what comes next.
pub fn late_helper<L: Library>() {
    L::anew(6);
    let words = words([0, 0, 0]);
    let change = {
        let words = words.clone();
        thread::spawn(move || assert!(L::exchange([(&words[1], 0, 1)])))
    };
    let helper = {
        let words = words.clone();
        thread::spawn(move || L::exchange([(&words[0], 0, 0)]))
    };
    let succeeded = L::exchange([(&words[0], 0, 5), (&words[1], 1, 2), (&words[2], 0, 3)]);
    change.join().unwrap();
    let right = if succeeded {
        [5, 2, 3]
    } else {
        assert!(L::exchange([(&words[0], 0, 6), (&words[1], 1, 7)]));
        for value in [6, 8, 10, 12] {
            assert!(L::exchange([(&words[0], value, value + 2)]));
        }
        [14, 7, 0]
    };
    helper.join().unwrap();
    assert_eq!(
        [0, 1, 2].map(|number: usize| L::load(&words[number])),
        right
    );
    nothing_leaks::<L>(3);
}

/// The same, but it is the helper that finds the second word as it was before, and uses the descriptor for what comes next, while
/// the owner goes on to the third.
pub fn late_owner<L: Library>() {
    L::anew(6);
    let words = words([0, 0, 0]);
    let change = {
        let words = words.clone();
        thread::spawn(move || assert!(L::exchange([(&words[1], 0, 1)])))
    };
    let helper = {
        let words = words.clone();
        thread::spawn(move || {
            let add = |word: &AtomicU64, amount: u64| {
                let old = L::load(word);
                u64::from(L::exchange([(word, old, old + amount)]))
            };
            let first = add(&words[0], 10);
            let second = match L::load(&words[1]) {
                // Left to the others.
                0 => 0,
                _ => add(&words[1], 10),
            };
            let others: u64 = (0..4).map(|_| add(&words[0], 10)).sum();
            (first + others, second)
        })
    };
    let succeeded = L::exchange([(&words[0], 0, 5), (&words[1], 1, 2), (&words[2], 0, 3)]);
    change.join().unwrap();
    let (first, second) = helper.join().unwrap();
    let [five, one, three] = match succeeded {
        true => [5, 1, 3],
        false => [0, 0, 0],
    };
    let right = [five + 10 * first, 1 + one + 10 * second, three];
    assert_eq!(
        [0, 1, 2].map(|number: usize| L::load(&words[number])),
        right
    );
    nothing_leaks::<L>(3);
}
