//! [`Counter`].

use atomseq::percpu::Counter;

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

fn drain(counter: &Counter) -> Words {
    vec![counter.take()]
}

fn fresh() -> Counter {
    let counter = Counter::new();
    add(&counter);
    counter
}

fn content(counter: &Counter) -> Words {
    let by_cpu = counter
        .per_cpu()
        .flat_map(|(cpu, value)| [cpu as u64, value]);
    by_cpu.chain([counter.sum()]).collect()
}

fn total(counter: &Counter) -> Words {
    vec![counter.sum()]
}

pub fn check(checker: &mut impl Check) {
    let base = Scenario {
        name: "Counter::add".to_string(),
        fresh,
        operation: add,
        interferences: &[("add", add), ("increment", increment), ("drain", drain)],
        signal_safe: true,
        whole: true,
        content,
        total,
    };
    checker.check(&base);
    checker.check(&Scenario {
        name: "Counter::increment".to_string(),
        operation: increment,
        ..base
    });
}
