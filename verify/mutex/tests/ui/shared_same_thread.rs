//! Two threads at once.

use atomseq::mutex::{Mutex, Rolling};

fn main() {
    let lock = Mutex::<u32, Rolling>::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| *lock.lock() += 1);
    });
}
