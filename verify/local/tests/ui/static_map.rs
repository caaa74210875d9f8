//! An ordinary static is shared by all threads.

use atomseq::local::Map;

static MAP: Map<usize, usize, 16> = Map::new();

fn main() {
    let _ = MAP.len();
}
