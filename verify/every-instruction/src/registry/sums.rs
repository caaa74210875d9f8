//! [`Counter`] and [`Histogram`].

use atomseq::percpu::{Counter, Histogram};

use crate::scenario::{Check, Scenario, Words};

#[inline(never)]
fn add(counter: &Counter) -> Words {
    counter.add(5);
    vec![]
}

#[inline(never)]
fn increment(counter: &Counter) -> Words {
    counter.increment();
    vec![]
}

fn drain_counter(counter: &Counter) -> Words {
    vec![counter.take()]
}

fn fresh_counter() -> Counter {
    let counter = Counter::new();
    add(&counter);
    counter
}

fn content_of_counter(counter: &Counter) -> Words {
    let by_cpu = counter
        .per_cpu()
        .flat_map(|(cpu, value)| [cpu as u64, value]);
    by_cpu.chain([counter.sum()]).collect()
}

fn total_of_counter(counter: &Counter) -> Words {
    vec![counter.sum()]
}

pub fn check_counter(checker: &mut impl Check) {
    let base = Scenario {
        name: "Counter::add".to_string(),
        fresh: fresh_counter,
        operation: add,
        interferences: &[
            ("add", add),
            ("increment", increment),
            ("drain", drain_counter),
        ],
        signal_safe: true,
        whole: true,
        content: content_of_counter,
        total: total_of_counter,
    };
    checker.check(&base);
    checker.check(&Scenario {
        name: "Counter::increment".to_string(),
        operation: increment,
        ..base
    });
}

#[inline(never)]
fn record(histogram: &Histogram) -> Words {
    histogram.record(5);
    vec![]
}

fn drain_histogram(histogram: &Histogram) -> Words {
    histogram.take().counts().to_vec()
}

fn total_of_histogram(histogram: &Histogram) -> Words {
    histogram.snapshot().counts().to_vec()
}

pub fn check_histogram(checker: &mut impl Check) {
    let base = Scenario {
        name: "Histogram::record, powers of two".to_string(),
        fresh: Histogram::powers_of_two,
        operation: record,
        interferences: &[("record", record), ("drain", drain_histogram)],
        signal_safe: true,
        whole: true,
        content: total_of_histogram,
        total: total_of_histogram,
    };
    checker.check(&base);
    checker.check(&Scenario {
        name: "Histogram::record, with bounds".to_string(),
        fresh: || Histogram::with_bounds(&[4, 8]),
        ..base
    });
}
