//! What becomes of a flag whose claimant is not there.

use super::*;
use crate::affinity::on_two_cpus;
use crate::sync::generation;

struct Stays;

impl Policy for Stays {
    fn next(&self, home: usize, _here: usize) -> usize {
        home
    }
}

/// What a child of a fork finds where another thread of its parent was visiting.
fn claimed_by_an_earlier_generation(held: usize) -> Bias {
    // Starts the library.
    crate::status();
    let flag = Bias::CLEAR;
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

/// The claimant held it by then, and is not there to clear it; it is not claimed for ever.
#[test]
fn what_the_claimant_had_set_stays_set() {
    for (held, interlocked) in [(HELD, false), (HELD_INTERLOCKED, true)] {
        let flag = claimed_by_an_earlier_generation(held);
        assert!(!flag.take_slowly(&Stays));
        assert!(flag.is_set());
        assert_eq!(flag.home() == INTERLOCKED, interlocked);
    }
}

/// A fork left the claimant behind, which held it. Released by force, before somebody takes the
/// claim over or after, it is set again by the next.
#[test]
fn what_a_claimant_had_set_is_released_by_force() {
    let biased = crate::status().gates_active();
    for held in [HELD, HELD_INTERLOCKED] {
        // Without the fence, nothing is ever set so.
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
fn a_visitor_gives_the_home_back() {
    on_two_cpus(|cpus, move_to| {
        let flag = Bias::CLEAR;
        assert!(flag.take_slowly(&Stays));
        move_to(cpus[1]);
        assert!(!flag.take_slowly(&Stays), "held, and not waited for");
        assert_eq!(flag.home(), cpus[0]);
        // Cleared from elsewhere, taken from elsewhere.
        flag.clear();
        assert!(!flag.take(), "not at home");
        assert!(flag.take_slowly(&Stays));
        assert_eq!(flag.home(), cpus[0]);
        flag.clear();
        move_to(cpus[0]);
        assert!(flag.take());
    });
}

/// Whoever slept through a change of mode has the old one in mind.
#[test]
fn a_stale_exchange_fails() {
    if !crate::status().gates_active() {
        return;
    }
    let flag = Bias::CLEAR;
    flag.home.store(INTERLOCKED, Ordering::Relaxed);
    flag.held.store(HELD_INTERLOCKED, Ordering::Relaxed);
    assert!(flag.move_to(0));
    flag.clear();
    assert_eq!(flag.exchange(), Err(FREE));
    assert!(!flag.is_set());
}
