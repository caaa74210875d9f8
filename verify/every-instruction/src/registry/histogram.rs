//! [`Histogram`].

use atomseq::percpu::Histogram;

use crate::scenario::{Check, Scenario, Words};

#[inline(never)]
fn record(histogram: &Histogram) -> Words {
    histogram.record(5);
    vec![]
}

fn drain(histogram: &Histogram) -> Words {
    histogram.take().counts().to_vec()
}

fn total(histogram: &Histogram) -> Words {
    histogram.snapshot().counts().to_vec()
}

pub fn check(checker: &mut impl Check) {
    let base = Scenario {
        name: "Histogram::record, powers of two".to_string(),
        fresh: Histogram::powers_of_two,
        operation: record,
        interferences: &[("record", record), ("drain", drain)],
        signal_safe: true,
        whole: true,
        content: total,
        total,
    };
    checker.check(&base);
    checker.check(&Scenario {
        name: "Histogram::record, with bounds".to_string(),
        fresh: || Histogram::with_bounds(&[4, 8]),
        ..base
    });
}
