//! Faults that the histories must find; each takes a stop at the right instruction.
#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

use std::panic::catch_unwind;
use std::time::Duration;

use atomseq::dcas::Mechanism;
use verify_history::alone::Alone;
use verify_history::broken::{
    Asleep, Beforehand, CarelessStack, Endless, Orphaned, Panicking, Torn, Unversioned,
    read_and_reset,
};
use verify_history::crew::{Trial, must_fail, run};
use verify_history::history::LANES;
use verify_history::record::{Subject, THREADS};
use verify_history::stops::Places;
use verify_history::structures::Hashed;
use verify_history::structures::counts::Set;
use verify_history::structures::ends::Ends;
use verify_history::structures::listed::Listed;
use verify_history::structures::pairs::Dependent;
use verify_history::structures::priorities::Pending;
use verify_history::structures::served::InTwo;
use verify_support::processes::{Circumstances, killed_in_fresh_process_under};

const MANY: usize = 300_000;

#[test]
fn a_stack_that_pops_by_a_load_and_a_store() {
    must_fail("a careless stack", Trial::of(MANY), |_| {
        CarelessStack::fresh()
    });
}

#[test]
fn a_stack_without_versions() {
    must_fail("a stack without versions", Trial::of(MANY), |_| {
        Unversioned::fresh()
    });
}

#[test]
fn words_looked_at_one_by_one() {
    for mechanism in [Mechanism::Assisted, Mechanism::Kcas] {
        must_fail("a snapshot in pieces", Trial::of(MANY), |_| {
            Torn::fresh(mechanism)
        });
    }
}

#[test]
fn what_is_only_compared_is_looked_at_beforehand() {
    for mechanism in [Mechanism::Assisted, Mechanism::Kcas] {
        must_fail("a comparison beforehand", Trial::of(MANY), |_| {
            Beforehand::fresh(mechanism)
        });
    }
}

/// GC96, section 5.2: an entry that is removed and inserted again is absent in between.
#[test]
fn a_change_of_priority_taken_for_one_step() {
    for mechanism in [Mechanism::Assisted, Mechanism::Kcas] {
        must_fail("a change of priority", Trial::of(MANY), |_| {
            Pending::<u64>::fresh_with_changes(mechanism)
        });
    }
}

/// The same, of a value that is to be under one of two keys at any time.
#[test]
fn a_change_of_key_taken_for_one_step() {
    for mechanism in [Mechanism::Assisted, Mechanism::Kcas] {
        must_fail("a change of key", Trial::of(MANY), |rng| {
            Dependent::fresh_with_moves(rng, mechanism)
        });
    }
}

/// GC96, section 5.2: a descriptor is inserted in each list, and deleted, as separate operations.
#[test]
fn a_move_from_list_to_list_taken_for_one_step() {
    for mechanism in [Mechanism::Assisted, Mechanism::Kcas] {
        must_fail("a move of a descriptor", Trial::of(MANY), |_| {
            Listed::fresh_with_moves(mechanism)
        });
    }
}

#[test]
fn a_map_that_splits_without_its_version() {
    must_fail("an unchecked split", Trial::of(MANY), |_| {
        Hashed::<false>::fresh()
    });
}

#[test]
fn a_counter_that_is_read_and_then_reset() {
    must_fail("a counter read and reset", Trial::of(MANY), |_| {
        Set::fresh(read_and_reset)
    });
}

#[test]
fn what_a_server_does_in_two_operations() {
    for mechanism in [Mechanism::Assisted, Mechanism::Kcas] {
        must_fail("two operations of a server", Trial::of(MANY), |_| {
            InTwo::fresh(mechanism)
        });
    }
}

/// GC96, section 5.2: an entry's change must fail if the subtree was unloaded.
#[test]
fn a_page_map_whose_entries_do_not_check_their_parent() {
    must_fail(
        "a map without its parents' versions",
        Trial::of(MANY),
        |_| Orphaned::fresh(),
    );
}

/// Runs a trial of threads that ends its process; returns the process's output, although tests are
/// captured.
fn last_words<S: Subject<Model = Ends>>(
    test: &str,
    trial: Trial,
    fresh: impl Fn() -> S,
) -> Option<String> {
    killed_in_fresh_process_under(test, Circumstances::captured(), libc::SIGABRT, || {
        let _alone = Alone::with_patience("a trial", Duration::from_millis(300));
        _ = run(trial, &Places::default(), |_| (fresh(), Ends::empty(0)));
    })
}

/// A trial without handlers.
fn of_threads(histories: usize) -> Trial {
    Trial {
        histories,
        timer: None,
        ..Trial::of(0)
    }
}

fn assert_says(errors: &str, parts: &[&str]) {
    for part in parts {
        assert!(errors.contains(part), "{part} is not in:\n{errors}");
    }
}

#[test]
fn an_operation_that_never_ends() {
    let trial = Trial {
        timer: Trial::of(0).timer,
        ..of_threads(1)
    };
    let words = last_words("an_operation_that_never_ends", trial, || Endless);
    if let Some(errors) = words {
        let parts = [
            "a trial: an operation never ends",
            "of CPU time in",
            ", an_operation_th: state R",
            "at <verify_history::broken::Endless as ",
            "from verify_history::crew::",
        ];
        assert_says(&errors, &parts);
    }
}

#[test]
fn an_operation_that_sleeps_for_ever() {
    let words = last_words("an_operation_that_sleeps_for_ever", of_threads(1), || {
        Asleep
    });
    if let Some(errors) = words {
        let parts = [
            "a trial: an operation never ends",
            "state S",
            "in system call futex",
            "from <verify_history::broken::Asleep as ",
        ];
        assert_says(&errors, &parts);
    }
}

#[test]
fn a_call_that_panics_on_any_thread() {
    for lane in 0..3 {
        let _alone = Alone::in_trial("a call that panics");
        let panicked = catch_unwind(|| {
            let empty = Ends::empty(0);
            run(of_threads(1), &Places::default(), |_| {
                (Panicking { lane }, empty.clone())
            })
        });
        let panicked = panicked.expect_err("the trial panics as well");
        let message = panicked.downcast_ref::<String>().expect("a message");
        assert_eq!(*message, format!("lane {lane} cannot go on"));
    }
}

#[test]
fn a_timer_that_leaves_no_time() {
    let _alone = Alone::in_trial("a timer that leaves no time");
    let trial = Trial {
        timer: Some(Duration::from_nanos(100)),
        ..of_threads(100)
    };
    let ran = run(trial, &Places::default(), |_| {
        (Panicking { lane: LANES }, Ends::empty(0))
    });
    let report = ran.expect("a queue that is always full");
    assert!(report.interruptions > 0, "{report}");
}

#[test]
fn a_call_that_panics_in_a_handler() {
    let trial = Trial {
        timer: Trial::of(0).timer,
        ..of_threads(1_000_000)
    };
    let words = last_words("a_call_that_panics_in_a_handler", trial, || Panicking {
        lane: THREADS,
    });
    if let Some(errors) = words {
        assert_says(
            &errors,
            &["thread a_call_that_pan panics at ", ": lane 4 cannot go on"],
        );
    }
}
