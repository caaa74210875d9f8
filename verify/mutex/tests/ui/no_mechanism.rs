//! An atomic is not a mechanism.

use std::sync::atomic::AtomicBool;

use atomseq::mutex::Mutex;

static LOCK: Mutex<u32, AtomicBool> = Mutex::new(0);

fn main() {
    *LOCK.lock() += 1;
}
