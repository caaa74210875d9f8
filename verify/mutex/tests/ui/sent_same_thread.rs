//! Its handlers stay behind.

use atomseq::mutex::{Masked, SpinLock};

fn main() {
    let lock = SpinLock::<u32, Masked>::new(0);
    std::thread::spawn(move || *lock.lock() += 1);
}
