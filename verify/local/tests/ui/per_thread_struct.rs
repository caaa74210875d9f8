//! A struct must say that it can be interrupted.

use atomseq::local::{Counter, per_thread};

struct Statistics {
    hits: Counter,
}

per_thread! {
    static STATISTICS: Statistics = Statistics { hits: Counter::new() };
}

fn main() {
    STATISTICS.with(|statistics| statistics.hits.increment());
}
