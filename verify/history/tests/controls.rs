//! What the histories must find out: it takes a stop at the right instruction.
#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

use std::time::Duration;

use atomseq::dcas::Mechanism;
use verify_history::broken::{Beforehand, CarelessStack, Endless, Torn, Unversioned};
use verify_history::crew::{Alone, Trial, must_fail, run};
use verify_history::models::ends::Ends;
use verify_history::stops::Places;
use verify_linux::killed_in_fresh_process;

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

#[test]
fn an_operation_that_never_ends() {
    let test = "an_operation_that_never_ends";
    let errors = killed_in_fresh_process(test, libc::SIGABRT, || {
        let _alone = Alone::with_patience("Endless", Duration::from_secs(1));
        let trial = Trial {
            histories: 1,
            ..Trial::of(0)
        };
        _ = run(trial, &Places::default(), |_| (Endless, Ends::empty(1)));
    });
    if let Some(errors) = errors {
        assert!(
            errors.contains("Endless: an operation never ends"),
            "{errors}"
        );
    }
}
