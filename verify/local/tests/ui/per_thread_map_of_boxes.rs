//! The same for a map's values, in an array of maps.

use atomseq::local::{Map, per_thread};

per_thread! {
    static MAPS: [Map<u8, Box<u8>, 4>; 2] = [Map::new(), Map::new()];
}

fn main() {
    MAPS.with(|maps| maps.len());
}
