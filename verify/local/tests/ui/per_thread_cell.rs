//! A handler could find a cell half written.

use std::cell::Cell;

use atomseq::local::per_thread;

per_thread! {
    static NAME: Cell<&'static str> = Cell::new("");
}

fn main() {
    NAME.with(|name| name.set("a name"));
}
