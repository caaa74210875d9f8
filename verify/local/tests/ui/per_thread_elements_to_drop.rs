//! Nobody would drop the boxes when the thread ends.

use atomseq::local::{Stack, per_thread};

per_thread! {
    static BOXES: Stack<Box<u8>, 4> = Stack::new();
}

fn main() {
    BOXES.with(|boxes| boxes.is_empty());
}
