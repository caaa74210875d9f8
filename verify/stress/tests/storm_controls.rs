//! What a storm loses when a protection is off: each has to be found out in time, and nothing may
//! be lost with all of them.
#![cfg(atomseq_sections)]

use std::time::{Duration, Instant};

use atomseq::internals::signal_controls;
use verify_stress::storm::sequences::{Forms, Protected, Unprotected};
use verify_stress::storm::trial::{self, Storm};
use verify_support::processes::{Circumstances, end_in, in_fresh_process_under};
use verify_support::this_test;

/// A fault has this long to be found out; most take less than a second.
const PATIENCE: Duration = Duration::from_secs(40);

/// One round; words only: what is lost must not be a link.
const ROUND: Storm = Storm {
    workers: 1,
    operations: 200_000,
    lists: false,
    foreign: false,
    patience: PATIENCE,
};

/// Storms in a process of its own until something is wrong; prepared by `install`.
fn found<F: Forms>(test: &str, round: Storm, install: impl FnOnce()) {
    let printed = in_fresh_process_under(test, Circumstances::default(), || {
        end_in(120);
        install();
        let start = Instant::now();
        let (mut rounds, mut handled, mut wrong) = (0, 0, 0);
        while wrong == 0 && start.elapsed() < PATIENCE {
            let figures = trial::run::<F>(round);
            (rounds, handled, wrong) = (rounds + 1, handled + figures.delivered, figures.wrong());
        }
        let time = start.elapsed().as_millis();
        println!(
            "storm: {test}: found after {rounds} rounds, {handled} handlers, {time} ms: {wrong} wrong"
        );
        assert_ne!(wrong, 0, "not found out");
    });
    if let Some(printed) = printed {
        printed.print_from("storm: ");
    }
}

fn without(parts: u32) {
    // SAFETY: this process exists to show what happens then; what handlers share with threads are
    // numbers.
    unsafe { signal_controls::set(parts) };
    trial::install::<Protected>();
}

#[test]
fn the_unprotected_form_loses() {
    found::<Unprotected>(this_test!(), ROUND, trial::install::<Unprotected>);
}

#[test]
fn a_foreign_handler_that_was_not_widened_loses() {
    let round = Storm {
        foreign: true,
        ..ROUND
    };
    found::<Protected>(this_test!(), round, || {
        trial::install::<Protected>();
        // Afterwards, and so as it is.
        trial::install_foreign();
        assert!(!atomseq::signal::audit().is_clean());
    });
}

#[test]
fn without_the_restart_additions_are_lost() {
    found::<Protected>(this_test!(), ROUND, || without(signal_controls::RESTART));
}

#[test]
fn without_the_rollforward_handlers_see_half_an_operation() {
    found::<Protected>(this_test!(), ROUND, || {
        without(signal_controls::ROLLFORWARD)
    });
}

#[test]
fn without_the_covering_mask_handlers_meet_in_a_sequence() {
    // Most handlers that come in then would wait all the same, until the delivery they interrupt
    // has decided: that is off, too.
    let off = signal_controls::COVERING_MASK | signal_controls::NESTED;
    found::<Protected>(this_test!(), ROUND, || without(off));
}

#[test]
fn without_deferral_handlers_come_in_under_the_mask() {
    found::<Protected>(this_test!(), ROUND, || without(signal_controls::DEFERRAL));
}
