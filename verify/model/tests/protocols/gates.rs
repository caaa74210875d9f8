//! Closers against each other: one at a time, and none waits indefinitely. Each locks once, so that
//! a closer that loses a wake-up is the last to send one.

use std::sync::Arc;

use crate::lock::{FOR_GOOD, lock, unlock};
use crate::machine::{Cpu, ELEMENTS, Fence, Rules, Slot, Test};
use crate::sync::Size::{Huge, Large, Small};
use crate::sync::{
    AtomicU32, Ordering, Plain, SPINS, fails, holds, spin_loop, thread, wait, wake_one,
};

type Lock = fn(&AtomicU32) -> u32;
type Unlock = fn(&AtomicU32);

/// This number of threads each lock once and add one, and all of them complete.
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

/// `lock`, but a woken thread forgets that others still wait.
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

/// `lock`, but it waits for a value that it has not verified.
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

// Sections against closers: every element is taken once, by whichever thread.

/// One thread pops on the CPU, trying twice, while another drains its slot.
pub fn pop_and_drain(rules: Rules) {
    let shared = Arc::new((Cpu::new(), Slot::new(rules)));
    let popping = {
        let shared = shared.clone();
        thread::spawn(move || shared.1.pop(&shared.0, 2))
    };
    let mut all = shared.1.drain(&shared.0);
    all.extend(popping.join().unwrap());
    all.extend(shared.1.drain(&shared.0));
    come_out_once(all);
}

/// Two threads pop on the same CPU while a third drains its slot.
fn two_pops_and_drain(rules: Rules) {
    let shared = Arc::new((Cpu::new(), Slot::new(rules)));
    let popping = [1, 1].map(|attempts| {
        let shared = shared.clone();
        thread::spawn(move || shared.1.pop(&shared.0, attempts))
    });
    let mut all = shared.1.drain(&shared.0);
    for popping in popping {
        all.extend(popping.join().unwrap());
    }
    all.extend(shared.1.drain(&shared.0));
    come_out_once(all);
}

/// A thread pops while two others drain.
fn pop_and_two_drains(rules: Rules) {
    let shared = Arc::new((Cpu::new(), Slot::new(rules)));
    let draining = {
        let shared = shared.clone();
        thread::spawn(move || shared.1.drain(&shared.0))
    };
    let popping = {
        let shared = shared.clone();
        thread::spawn(move || shared.1.pop(&shared.0, 1))
    };
    let mut all = shared.1.drain(&shared.0);
    all.extend(draining.join().unwrap());
    all.extend(popping.join().unwrap());
    all.extend(shared.1.drain(&shared.0));
    come_out_once(all);
}

fn come_out_once(mut all: Vec<usize>) {
    all.sort_unstable();
    let expected: Vec<usize> = (1..=ELEMENTS).collect();
    assert_eq!(all, expected, "elements lost or doubled");
}

#[test]
fn every_element_comes_out_once() {
    holds("gate: a pop and a drain", Small, || {
        pop_and_drain(Rules::ALL)
    });
    holds("gate: two pops and a drain", Large, || {
        two_pops_and_drain(Rules::ALL);
    });
    holds("gate: a pop and two drains", Large, || {
        pop_and_two_drains(Rules::ALL);
    });
}

/// A gate that stays closed permanently is a plain lock, and needs no fence.
#[test]
fn a_gate_closed_for_good_keeps_sections_out() {
    let rules = Rules {
        gate: FOR_GOOD,
        fence: Fence::Never,
        ..Rules::ALL
    };
    holds("gate: closed for good", Small, move || pop_and_drain(rules));
}

/// The fault when a section and a closer conflict.
const LOST: &str = "elements lost or doubled";

#[test]
fn without_the_fence_a_section_outlives_the_closing() {
    for (name, fence) in [
        ("no fence", Fence::Never),
        ("a fence that aborts nothing", Fence::AbortsNothing),
        ("the fence before the lock", Fence::BeforeLocking),
    ] {
        let rules = Rules {
            fence,
            ..Rules::ALL
        };
        fails(&format!("gate: {name}"), LOST, Small, move || {
            pop_and_drain(rules);
        });
    }
}

#[test]
fn without_the_test_inside_a_section_begins_in_a_closed_gate() {
    for (name, test) in [
        ("no test of the gate", Test::Never),
        ("the test before the section", Test::BeforeArming),
    ] {
        let rules = Rules { test, ..Rules::ALL };
        fails(&format!("gate: {name}"), LOST, Small, move || {
            pop_and_drain(rules);
        });
    }
}

#[test]
fn without_the_lock_closers_meet() {
    fn two_take_it(gate: &AtomicU32) -> u32 {
        // A load and a store, where the library has an exchange.
        while gate.load(Ordering::Acquire) & 1 != 0 {
            thread::yield_now();
        }
        gate.store(1, Ordering::Relaxed);
        0
    }
    let rules = Rules {
        lock: two_take_it,
        ..Rules::ALL
    };
    fails("gate: a lock that two take", LOST, Large, move || {
        pop_and_two_drains(rules);
    });
}
