//! What the histories must find out: it takes a stop at the right instruction.
#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

use atomseq::dcas::Mechanism;
use verify_history::broken::{Beforehand, CarelessStack, Torn, Unversioned};
use verify_history::crew::{Trial, must_fail};

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
