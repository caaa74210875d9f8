//! A thread and its handlers change the same words, under as many signals as possible: no change is
//! lost.
#![cfg(atomseq_sections)]

use std::time::Duration;

use verify_stress::lengthened;
use verify_stress::storm::sequences::Protected;
use verify_stress::storm::trial::Storm;
use verify_stress::storm::{lives, trial};
use verify_support::processes::{Circumstances, end_in, in_fresh_process_under};
use verify_support::this_test;

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
        let operations = std::env::var(OPERATIONS).ok();
        let operations = operations
            .and_then(|number| number.parse().ok())
            .unwrap_or(5_000_000);
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
