//! [`Counter`].

use atomseq::local::Counter;

use super::super::{Named, each};
use crate::scenario::{Check, Words};

#[inline(never)]
fn add(counter: &Counter, amount: u64) -> Words {
    counter.add(amount);
    vec![]
}

#[inline(never)]
fn drain(counter: &Counter) -> Words {
    vec![counter.take()]
}

fn fresh() -> Counter {
    let counter = Counter::new();
    add(&counter, 7);
    counter
}

const INTERFERENCES: &[Named<Counter>] = &[("add", |counter| add(counter, 5)), ("drain", drain)];

pub fn check(checker: &mut impl Check) {
    let operations: [Named<Counter>; 2] = [
        ("local::Counter::add", |counter| add(counter, 3)),
        ("local::Counter::drain", drain),
    ];
    each(
        checker,
        &[("at 7", fresh)],
        &operations,
        INTERFERENCES,
        |counter| vec![counter.sum()],
    );
}
