//! A handler could change the count of an `Rc` while the thread is changing it.

use std::rc::Rc;

use atomseq::local::{Ring, per_thread};

per_thread! {
    static COUNTED: Ring<Rc<u8>, 4> = Ring::new();
}

fn main() {
    COUNTED.with(|counted| counted.len());
}
