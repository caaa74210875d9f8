//! Locks whose mechanism is atomic against the handlers of one thread only, in the hands of another
//! thread.

use atomseq::mutex::{Counted, Masked, MutexBy, Restarting, Rolling, SpinLockBy};

static STATIC: SpinLockBy<Restarting, u32> = SpinLockBy::new(0);

/// Counting does not widen the scope.
static COUNTED: MutexBy<Counted<Restarting>, u32> = MutexBy::new(0);

fn shared() {
    let lock = MutexBy::<Rolling, u32>::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| *lock.lock() += 1);
    });
}

/// Its handlers stay behind.
fn sent() {
    let lock = SpinLockBy::<Masked, u32>::new(0);
    std::thread::spawn(move || *lock.lock() += 1);
}

/// A guard unlocks where it is dropped.
fn sent_guard() {
    let lock = SpinLockBy::<Restarting, u32>::new(0);
    let guard = lock.lock();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(guard));
    });
}

fn main() {}
