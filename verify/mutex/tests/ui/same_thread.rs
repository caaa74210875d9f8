//! Locks whose mechanism is atomic against the handlers of one thread only, in the hands of another
//! thread.

use atomseq::mutex::{Counted, Masked, Mutex, Restarting, Rolling, SpinLock};

static STATIC: SpinLock<u32, Restarting> = SpinLock::new(0);

/// Counting does not widen the scope.
static COUNTED: Mutex<u32, Counted<Restarting>> = Mutex::new(0);

fn shared() {
    let lock = Mutex::<u32, Rolling>::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| *lock.lock() += 1);
    });
}

/// Its handlers stay behind.
fn sent() {
    let lock = SpinLock::<u32, Masked>::new(0);
    std::thread::spawn(move || *lock.lock() += 1);
}

/// A guard unlocks where it is dropped.
fn sent_guard() {
    let lock = SpinLock::<u32, Restarting>::new(0);
    let guard = lock.lock();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(guard));
    });
}

fn main() {}
