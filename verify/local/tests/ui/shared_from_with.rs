//! A thread's own value, lent to another thread.

use atomseq::local::{Counter, per_thread};

per_thread! {
    static HITS: Counter = Counter::new();
}

fn main() {
    HITS.with(|hits| {
        std::thread::scope(|scope| {
            scope.spawn(|| hits.increment());
        });
    });
}
