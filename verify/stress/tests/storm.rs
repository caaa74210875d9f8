//! A thread and its handlers change the same words, under as many signals as possible: no change is
//! lost. With a protection off, something is.
#![cfg(atomseq_sections)]

use std::time::{Duration, Instant};

use atomseq::internals::signal_controls;
use verify_stress::lengthened;
use verify_stress::storm::lives;
use verify_stress::storm::sequences::{Forms, Protected, Unprotected};
use verify_stress::storm::trial::{self, Storm};
use verify_support::processes::{Circumstances, end_in, in_fresh_process_under};
use verify_support::{number_from_env, this_test};

/// The length of the whole storm, in operations: 100,000,000 are its full length.
const OPERATIONS: &str = "ATOMSEQ_STORM_OPERATIONS";

const STORM: Storm = Storm {
    workers: 1,
    operations: 0,
    lists: true,
    foreign: true,
    limit: Duration::from_secs(500),
};

/// Runs in a process of its own, so that no other test shares its handlers; prints what it printed.
fn storm(test: &str, check: impl FnOnce()) {
    let printed = in_fresh_process_under(test, Circumstances::default(), || {
        end_in(600);
        // Before those of the library, which then widens its mask.
        trial::install_foreign();
        trial::install::<Protected>();
        let audit = atomseq::signal::audit();
        assert!(audit.is_clean(), "{audit:?}");
        check();
    });
    if let Some(printed) = printed {
        printed.print_from("storm: ");
    }
}

#[test]
fn nothing_is_lost() {
    storm(this_test!(), || {
        let operations = number_from_env(OPERATIONS, 5_000_000);
        let figures = trial::run::<Protected>(Storm {
            operations,
            ..STORM
        });
        println!("storm: one thread: {figures}");
        assert_eq!(figures.wrong(), 0);
        assert!(figures.outcome.by_thread >= operations, "in time");
        assert!(
            figures.handled.iter().all(|count| *count > 0),
            "each way of handling was used"
        );
        assert!(figures.post.0 > 0);
    });
}

#[test]
fn nothing_is_lost_by_more_threads_than_processors() {
    storm(this_test!(), || {
        let operations = 1_000_000;
        let figures = trial::run::<Protected>(Storm {
            operations,
            workers: 5,
            ..STORM
        });
        println!("storm: five threads: {figures}");
        assert_eq!(figures.wrong(), 0);
        assert!(figures.outcome.by_thread >= operations, "in time");
    });
}

#[test]
fn threads_start_and_exit() {
    storm(this_test!(), || {
        let length = lengthened(Duration::from_millis(800));
        let (threads, outcome, sent) = lives::starts_and_exits(length);
        println!("storm: {threads} threads started and exited under {sent} signals, {outcome:?}");
        assert_eq!(outcome.wrong, 0);
        assert!(threads > 10 && sent > threads);
    });
}

#[test]
fn processes_fork() {
    storm(this_test!(), || {
        let (forks, outcome) = lives::forks(lengthened(Duration::from_millis(800)));
        println!("storm: {forks} forks, {outcome:?}");
        assert_eq!(outcome.wrong, 0);
        assert!(forks > 5);
    });
}

#[test]
fn programs_are_executed() {
    if lives::executed() {
        return;
    }
    let times = 5;
    let sent = lives::execs(this_test!(), times);
    println!("storm: {times} programs executed under {sent} signals");
    assert!(sent > 10 * times);
}

// What a storm loses when a protection is off: each loss must be detected.

/// The limit for the detection of a fault; most take less than a second.
const LIMIT: Duration = Duration::from_secs(400);

/// One round, with numbers only: a link must not be lost.
const ROUND: Storm = Storm {
    workers: 1,
    operations: 200_000,
    lists: false,
    foreign: false,
    limit: LIMIT,
};

/// Runs storms in a process of its own until one detects a fault, after `install`.
fn detects<F: Forms>(test: &str, round: Storm, install: impl FnOnce()) {
    let printed = in_fresh_process_under(test, Circumstances::default(), || {
        end_in(900);
        install();
        let start = Instant::now();
        let (mut rounds, mut handled, mut wrong) = (0, 0, 0);
        while wrong == 0 && start.elapsed() < LIMIT {
            let figures = trial::run::<F>(round);
            (rounds, handled, wrong) = (rounds + 1, handled + figures.delivered, figures.wrong());
        }
        let time = start.elapsed().as_millis();
        println!(
            "storm: {test}: detected after {rounds} rounds, {handled} handlers, {time} ms: {wrong} wrong"
        );
        assert_ne!(wrong, 0, "not detected");
    });
    if let Some(printed) = printed {
        printed.print_from("storm: ");
    }
}

fn without(parts: u32) {
    // SAFETY: handlers and threads share only numbers, which this process exists to lose.
    unsafe { signal_controls::set(parts) };
    trial::install::<Protected>();
}

#[test]
fn the_unprotected_form_loses() {
    detects::<Unprotected>(this_test!(), ROUND, trial::install::<Unprotected>);
}

#[test]
fn a_foreign_handler_that_was_not_widened_loses() {
    let round = Storm {
        foreign: true,
        ..ROUND
    };
    detects::<Protected>(this_test!(), round, || {
        trial::install::<Protected>();
        // After those of the library, which leaves its mask as it is.
        trial::install_foreign();
        assert!(!atomseq::signal::audit().is_clean());
    });
}

#[test]
fn without_the_restart_additions_are_lost() {
    detects::<Protected>(this_test!(), ROUND, || without(signal_controls::RESTART));
}

#[test]
fn without_the_rollforward_handlers_see_half_an_operation() {
    detects::<Protected>(this_test!(), ROUND, || {
        without(signal_controls::ROLLFORWARD)
    });
}

#[test]
fn without_the_covering_mask_handlers_meet_in_a_sequence() {
    // Most handlers that run then would still wait until the delivery that they interrupt has
    // decided: that is off, too.
    let off = signal_controls::COVERING_MASK | signal_controls::NESTED;
    detects::<Protected>(this_test!(), ROUND, || without(off));
}

#[test]
fn without_deferral_handlers_run_under_the_mask() {
    detects::<Protected>(this_test!(), ROUND, || without(signal_controls::DEFERRAL));
}
