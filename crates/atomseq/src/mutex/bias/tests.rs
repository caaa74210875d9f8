//! Claims whose claimant does not exist in this process, and other rare states of a flag.

use super::*;
use crate::affinity::on_two_cpus;
use crate::sync::generation;

struct Stays;

impl Policy for Stays {
    fn next(&self, home: usize, _here: usize) -> usize {
        home
    }
}

/// The state that a child finds if another thread of its parent was visiting at the fork.
fn claimed_by_an_earlier_generation(held: usize) -> HomeFlag {
    // Starts the library.
    crate::status();
    let flag = HomeFlag::CLEAR;
    let of_another = (generation() as usize + 77) << 8;
    flag.home.store(CLAIM | of_another, Ordering::Relaxed);
    flag.held.store(held, Ordering::Relaxed);
    flag
}

#[test]
fn a_claim_of_an_earlier_generation_is_taken_over() {
    for awaited in [0, 4] {
        let flag = claimed_by_an_earlier_generation(FREE);
        flag.home.fetch_or(awaited, Ordering::Relaxed);
        assert!(!flag.take(), "not at once");
        assert!(flag.take_slowly(&Stays));
        let biased = crate::status().gates_active();
        assert_eq!(flag.home() < SPECIAL && flag.is_biased(), biased);
        assert_eq!(flag.home() == INTERLOCKED, !biased);
        assert!(!flag.take_slowly(&Stays));
        match biased {
            true => flag.clear(),
            false => flag.clear_interlocked(),
        }
        assert!(flag.take_slowly(&Stays));
    }
}

/// The claimant had set the flag, and cannot clear it in this process. The claim ends all the same.
#[test]
fn a_flag_set_by_a_missing_claimant_stays_set() {
    for (held, interlocked) in [(HELD, false), (HELD_INTERLOCKED, true)] {
        let flag = claimed_by_an_earlier_generation(held);
        assert!(!flag.take_slowly(&Stays));
        assert!(flag.is_set());
        assert_eq!(flag.home() == INTERLOCKED, interlocked);
    }
}

/// The claimant had set the flag, and cannot clear it in this process. After a forced release,
/// before or after the claim is taken over, the flag can be set again.
#[test]
fn a_flag_set_by_a_missing_claimant_can_be_released_by_force() {
    let biased = crate::status().gates_active();
    for held in [HELD, HELD_INTERLOCKED] {
        // Without the fence no flag is biased.
        if held == HELD && !biased {
            continue;
        }
        for taken_over in [false, true] {
            let flag = claimed_by_an_earlier_generation(held);
            assert!(!taken_over || !flag.take_slowly(&Stays));
            match flag.is_biased() {
                true => flag.clear(),
                false => flag.clear_interlocked(),
            }
            assert!(!flag.is_set());
            assert!(flag.take_slowly(&Stays));
            assert!(!flag.take_slowly(&Stays));
        }
    }
}

#[test]
fn a_visitor_restores_the_home() {
    on_two_cpus(|cpus, move_to| {
        let flag = HomeFlag::CLEAR;
        assert!(flag.take_slowly(&Stays));
        move_to(cpus[1]);
        assert!(!flag.take_slowly(&Stays), "held by another CPU's thread");
        assert_eq!(flag.home(), cpus[0]);
        // Cleared from another CPU, and set from another CPU.
        flag.clear();
        assert!(!flag.take(), "not on its home CPU");
        assert!(flag.take_slowly(&Stays));
        assert_eq!(flag.home(), cpus[0]);
        flag.clear();
        move_to(cpus[0]);
        assert!(flag.take());
    });
}

/// The compare-exchange of a thread that was stopped during a change of mode.
#[test]
fn a_stale_exchange_fails() {
    if !crate::status().gates_active() {
        return;
    }
    let flag = HomeFlag::CLEAR;
    flag.home.store(INTERLOCKED, Ordering::Relaxed);
    flag.held.store(HELD_INTERLOCKED, Ordering::Relaxed);
    assert!(flag.move_to(0));
    flag.clear();
    assert_eq!(flag.exchange(), Err(FREE));
    assert!(!flag.is_set());
}
