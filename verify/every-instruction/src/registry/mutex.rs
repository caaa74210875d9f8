//! Test-and-set that has a home: [`OnCpu`] and [`BiasedFlag`].

use atomseq::mutex::{BiasedFlag, OnCpu, TestAndSet};

use super::on_both;
use crate::scenario::{Check, Operation, Scenario, Words};

#[inline(never)]
fn set<M: TestAndSet>(flag: &M) -> Words {
    vec![flag.test_and_set().into()]
}

fn is_set<M: TestAndSet>(flag: &M) -> Words {
    vec![flag.is_set().into()]
}

fn set_and_clear<M: TestAndSet>(flag: &M) {
    assert_eq!(set(flag), [1]);
    // SAFETY: this thread set it.
    unsafe { flag.clear() };
}

/// At home on this CPU, and used on the other one before, if that takes part.
fn used<M: TestAndSet>() -> M {
    let flag = M::CLEAR;
    set_and_clear(&flag);
    on_both(|_| set_and_clear(&flag));
    flag
}

/// Where it is at home already, and where it is not.
fn check_mechanism<M: TestAndSet>(
    checker: &mut impl Check,
    interferences: &'static [(&'static str, Operation<M>)],
) {
    let used = Scenario {
        name: format!("test-and-set {}", M::NAME),
        fresh: used::<M>,
        operation: set::<M>,
        interferences,
        signal_safe: true,
        whole: true,
        content: is_set::<M>,
        total: is_set::<M>,
    };
    checker.check(&used);
    checker.check(&Scenario {
        name: format!("test-and-set {}, the first", M::NAME),
        fresh: || M::CLEAR,
        ..used
    });
}

pub fn check(checker: &mut impl Check) {
    check_mechanism::<OnCpu>(checker, &[("test-and-set", set)]);
    check_mechanism::<BiasedFlag>(checker, &[("test-and-set", set)]);
}
