//! Every thread reaches a static; the mechanism is atomic against one thread's handlers only.

use atomseq::mutex::{Restarting, SpinLock};

static LOCK: SpinLock<u32, Restarting> = SpinLock::new(0);

fn main() {
    *LOCK.lock() += 1;
}
