//! Another thread would add without its additions being atomic.

use atomseq::local::Counter;

fn main() {
    let counter = Counter::new();
    std::thread::spawn(move || counter.increment());
}
