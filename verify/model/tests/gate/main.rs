//! The gate: sections on a CPU against those who close its gate from elsewhere, and closers against each
//! other. Runs the library's own lock, and finds out what becomes of it without each of its parts.

#[path = "../../../../crates/atomseq/src/percpu/lock.rs"]
mod lock;
mod machine;
mod sync;

use std::sync::Arc;

use loom::thread;
use machine::{Cpu, ELEMENTS, Fence, Rules, Slot, Test};
use sync::{AtomicU32, Ordering, fails, holds, wake_one};

/// One thread pops on the CPU while another drains its slot: every element comes out once.
fn pop_against_drain(rules: Rules) {
    let shared = Arc::new((Cpu::new(), Slot::new(rules)));
    let popping = {
        let shared = shared.clone();
        thread::spawn(move || shared.1.pop(&shared.0, 2))
    };
    let mut all = shared.1.drain(&shared.0);
    all.extend(popping.join().unwrap());
    all.extend(shared.1.drain(&shared.0));
    comes_out_once(all);
}

/// Two threads pop on the same CPU while a third drains its slot.
fn two_pop_against_drain(rules: Rules) {
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
    comes_out_once(all);
}

/// A thread pops while two others drain.
fn pop_against_two_drains(rules: Rules) {
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
    comes_out_once(all);
}

fn comes_out_once(mut all: Vec<usize>) {
    all.sort_unstable();
    let expected: Vec<usize> = (1..=ELEMENTS).collect();
    assert_eq!(all, expected, "elements lost or doubled");
}

#[test]
fn every_element_comes_out_once() {
    holds("gate: a pop and a drain", 4, || {
        pop_against_drain(Rules::ALL)
    });
    holds("gate: two pops and a drain", 2, || {
        two_pop_against_drain(Rules::ALL);
    });
    holds("gate: a pop and two drains", 2, || {
        pop_against_two_drains(Rules::ALL);
    });
}

#[test]
fn without_the_fence_elements_are_lost() {
    let rules = Rules {
        fence: Fence::Never,
        ..Rules::ALL
    };
    fails("gate: no fence", "", 3, move || pop_against_drain(rules));
}
