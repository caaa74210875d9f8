//! Two owners of one box.

use atomseq::local::Map;

fn main() {
    let map: Map<usize, Box<u8>, 4> = Map::new();
    let _ = map.get(1);
}
