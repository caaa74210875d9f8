//! An atomic is no mechanism, and a lock that does not count has no counts.

use std::sync::atomic::AtomicBool;

use atomseq::mutex::{Mutex, counts};

static NO_MECHANISM: Mutex<u32, AtomicBool> = Mutex::new(0);

static NOT_COUNTED: Mutex<u32> = Mutex::new(0);

fn main() {
    *NO_MECHANISM.lock() += 1;
    println!("{}", counts(&NOT_COUNTED));
}
