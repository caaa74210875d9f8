//! Counting does not widen the scope.

use atomseq::mutex::{Counted, Mutex, Restarting};

static LOCK: Mutex<u32, Counted<Restarting>> = Mutex::new(0);

fn main() {
    *LOCK.lock() += 1;
}
