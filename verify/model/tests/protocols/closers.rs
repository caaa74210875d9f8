//! Closers against each other: one at a time, and nobody waits for ever. Each locks once, so that
//! whoever loses a wake-up is the last to give one.

use std::sync::Arc;

use crate::lock::{lock, unlock};
use crate::sync::Size::{Huge, Large, Small};
use crate::sync::{AtomicU32, Ordering, Plain, SPINS};
use crate::sync::{fails, holds, spin_loop, thread, wait, wake_one};

type Lock = fn(&AtomicU32) -> u32;
type Unlock = fn(&AtomicU32);

/// So many threads each lock once and add one, and all of them end.
fn each_adds_one(closers: usize, lock: Lock, unlock: Unlock) {
    let shared = Arc::new((AtomicU32::new(0), Plain::new(0)));
    let add = move |(gate, sum): &(AtomicU32, Plain)| {
        lock(gate);
        let before = sum.get();
        sum.pause();
        sum.set(before + 1);
        unlock(gate);
    };
    let others: Vec<_> = (1..closers)
        .map(|_| {
            let shared = shared.clone();
            thread::spawn(move || add(&shared))
        })
        .collect();
    add(&shared);
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(shared.1.get(), closers, "additions lost");
    assert_eq!(shared.0.load(Ordering::Relaxed) & 1, 0, "still locked");
}

#[test]
fn closers_follow_one_another() {
    holds("lock: two closers", Small, || {
        each_adds_one(2, lock, unlock)
    });
    holds("lock: three closers", Large, || {
        each_adds_one(3, lock, unlock)
    });
    holds("lock: four closers", Huge, || {
        each_adds_one(4, lock, unlock)
    });
}

#[test]
fn a_closer_that_does_not_look_is_found() {
    fn takes_it(gate: &AtomicU32) -> u32 {
        gate.fetch_or(1, Ordering::Acquire)
    }
    fails("lock: taken without a look", "", Small, || {
        each_adds_one(2, takes_it, unlock);
    });
}

const SLEEPS_ON: &str = "deadlock";

#[test]
fn a_lost_wake_up_is_found() {
    fn no_wake(gate: &AtomicU32) {
        gate.fetch_and(4, Ordering::Release);
    }
    fails("lock: opened without a wake-up", SLEEPS_ON, Small, || {
        each_adds_one(2, lock, no_wake);
    });

    fn wake_first(gate: &AtomicU32) {
        if gate.load(Ordering::Relaxed) & 2 != 0 {
            wake_one(gate);
        }
        gate.fetch_and(4, Ordering::Release);
    }
    fails(
        "lock: the wake-up before the opening",
        SLEEPS_ON,
        Small,
        || {
            each_adds_one(2, lock, wake_first);
        },
    );
}

/// `lock`, but whoever was woken forgets that others still wait.
fn forgets_others(gate: &AtomicU32) -> u32 {
    let mut spins = 0;
    loop {
        let word = gate.load(Ordering::Relaxed);
        if word & 1 == 0 {
            if gate
                .compare_exchange(word, word | 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return word;
            }
        } else if spins < SPINS {
            spins += 1;
            spin_loop();
        } else {
            let waiting = word | 2;
            if word == waiting
                || gate
                    .compare_exchange(word, waiting, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                wait(gate, waiting);
            }
        }
    }
}

#[test]
fn a_forgotten_waiter_is_found() {
    fails("lock: a second waiter forgotten", SLEEPS_ON, Large, || {
        each_adds_one(3, forgets_others, unlock);
    });
}

/// `lock`, but it waits for a value it has not made sure of.
fn waits_unmarked(gate: &AtomicU32) -> u32 {
    loop {
        let word = gate.load(Ordering::Relaxed);
        if word & 1 == 0 {
            if gate
                .compare_exchange(word, word | 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return word;
            }
        } else {
            wait(gate, word);
        }
    }
}

#[test]
fn an_unmarked_waiter_is_found() {
    fails(
        "lock: a waiter that leaves no mark",
        SLEEPS_ON,
        Small,
        || {
            each_adds_one(2, waits_unmarked, unlock);
        },
    );
}
