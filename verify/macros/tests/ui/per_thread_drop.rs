//! Statics of a thread whose elements must be dropped: nothing drops them when the thread exits.

use atomseq::local::{Map, Stack, per_thread};

per_thread! {
    static BOXES: Stack<Box<u8>, 4> = Stack::new();
}

// The same in an array of maps.
per_thread! {
    static MAPS: [Map<u8, Box<u8>, 4>; 2] = [Map::new(), Map::new()];
}

fn main() {
    BOXES.with(|boxes| boxes.is_empty());
    MAPS.with(|maps| maps.len());
}
