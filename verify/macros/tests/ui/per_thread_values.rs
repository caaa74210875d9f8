//! Statics of a thread whose types a handler could find half changed, and one that would be set up
//! on first use.

use std::cell::Cell;
use std::rc::Rc;

use atomseq::local::{Counter, Ring, per_thread};

per_thread! {
    static NAME: Cell<&'static str> = Cell::new("");
}

// A handler could change the count of an `Rc` while the thread changes it.
per_thread! {
    static COUNTED: Ring<Rc<u8>, 4> = Ring::new();
}

// A struct must declare that it can be interrupted.
struct Statistics {
    hits: Counter,
}

per_thread! {
    static STATISTICS: Statistics = Statistics { hits: Counter::new() };
}

fn make() -> Counter {
    Counter::new()
}

per_thread! {
    static HITS: Counter = make();
}

fn main() {
    NAME.with(|name| name.set("a name"));
    COUNTED.with(|counted| counted.len());
    STATISTICS.with(|statistics| statistics.hits.increment());
    HITS.with(|hits| hits.increment());
}
