//! Nothing is set up on first use.

use atomseq::local::{Counter, per_thread};

fn make() -> Counter {
    Counter::new()
}

per_thread! {
    static HITS: Counter = make();
}

fn main() {
    HITS.with(|hits| hits.increment());
}
