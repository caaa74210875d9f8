//! A sum of boxes.

use atomseq::local::Map;

fn main() {
    let map: Map<usize, Box<u8>, 4> = Map::new();
    let _ = map.add(1, Box::new(2));
}
