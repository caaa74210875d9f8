//! Sections against closers: every element comes out once, whoever takes it.

use std::sync::Arc;

use crate::lock::FOR_GOOD;
use crate::machine::{Cpu, ELEMENTS, Fence, Rules, Slot, Test};
use crate::sync::Size::{Large, Small};
use crate::sync::{AtomicU32, Ordering, fails, holds, thread};

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

/// A gate that is closed for good is just a lock, and needs no fence.
#[test]
fn a_gate_closed_for_good_keeps_sections_out() {
    let rules = Rules {
        gate: FOR_GOOD,
        fence: Fence::Never,
        ..Rules::ALL
    };
    holds("gate: closed for good", Small, move || pop_and_drain(rules));
}

/// What a section and a closer do to each other.
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
