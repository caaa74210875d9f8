//! An atomic is no mechanism, and a lock that does not count has no counts.

use std::sync::atomic::AtomicBool;

use atomseq::mutex::{Mutex, MutexBy, counts};

static NO_MECHANISM: MutexBy<AtomicBool, u32> = MutexBy::new(0);

static NOT_COUNTED: Mutex<u32> = Mutex::new(0);

fn main() {
    *NO_MECHANISM.lock() += 1;
    println!("{}", counts(&NOT_COUNTED));
}
