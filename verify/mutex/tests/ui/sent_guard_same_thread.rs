//! A guard unlocks where it is dropped.

use atomseq::mutex::{Restarting, SpinLock};

fn main() {
    let lock = SpinLock::<u32, Restarting>::new(0);
    let guard = lock.lock();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(guard));
    });
}
