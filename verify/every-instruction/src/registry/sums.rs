//! [`Counter`], [`Counters`] and [`Histogram`].

use atomseq::percpu::{Count, Counter, Counters, Histogram};

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

/// A counter, with its neighbours in memory.
struct Counted([Count<'static>; 3]);

#[inline(never)]
fn add_to(count: &Count<'_>) {
    count.add(5);
}

fn add_to_one(counted: &Counted) -> Words {
    add_to(&counted.0[1]);
    vec![]
}

fn add_to_all(counted: &Counted) -> Words {
    counted.0.iter().for_each(add_to);
    vec![]
}

fn drain_one(counted: &Counted) -> Words {
    vec![counted.0[1].take()]
}

fn total_of_counters(counted: &Counted) -> Words {
    counted.0.iter().map(Count::sum).collect()
}

pub fn check_counters(checker: &mut impl Check) {
    static COUNTERS: Counters = Counters::new();
    checker.check(&Scenario {
        name: "Count::add".to_string(),
        fresh: || Counted([(); 3].map(|()| COUNTERS.create())),
        operation: add_to_one,
        interferences: &[
            ("add to one", add_to_one),
            ("add to all", add_to_all),
            ("drain", drain_one),
        ],
        signal_safe: true,
        whole: true,
        content: total_of_counters,
        total: total_of_counters,
    });
}

#[inline(never)]
fn record(histogram: &Histogram) -> Words {
    histogram.record(5);
    vec![]
}

fn drain_histogram(histogram: &Histogram) -> Words {
    let snapshot = histogram.take();
    let counts = snapshot.counts().iter().copied();
    counts.chain(snapshot.sum()).collect()
}

fn total_of_histogram(histogram: &Histogram) -> Words {
    let snapshot = histogram.snapshot();
    let counts = snapshot.counts().iter().copied();
    counts.chain(snapshot.sum()).collect()
}

fn prepared(histogram: Histogram) -> Histogram {
    histogram.prepare().expect("memory");
    histogram
}

pub fn check_histogram(checker: &mut impl Check) {
    let base = Scenario {
        name: "Histogram::record, powers of two".to_string(),
        fresh: || prepared(Histogram::powers_of_two()),
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
        fresh: || prepared(Histogram::with_bounds(&[4, 8])),
        ..base
    });
    checker.check(&Scenario {
        name: "Histogram::record, log-linear".to_string(),
        fresh: || prepared(Histogram::log_linear(2, 100)),
        ..base
    });
    // An interruption between the two additions sees the first one.
    checker.check(&Scenario {
        name: "Histogram::record, with a sum".to_string(),
        fresh: || prepared(Histogram::powers_of_two().with_sum()),
        whole: false,
        ..base
    });
}
