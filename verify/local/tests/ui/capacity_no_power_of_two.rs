//! Positions wrap around by masking.

use atomseq::local::{Queue, Ring};

fn main() {
    std::mem::forget(Queue::<usize, 100>::new());
    std::mem::forget(Ring::<usize, 3>::new());
}
