//! Locks of what is no mechanism, counts of a lock that does not count, and waits without a lock to
//! release, with a guard of a part that could be gone when the lock is acquired again, and while
//! something that the lock guards is borrowed.

use std::sync::atomic::AtomicBool;

use atomseq::mutex::lock_api::MutexGuard;
use atomseq::mutex::{Condvar, Mutex, MutexBy, counts};

static NO_MECHANISM: MutexBy<AtomicBool, u32> = MutexBy::new(0);

static NOT_COUNTED: Mutex<u32> = Mutex::new(0);

fn without_lock(changed: &Condvar) {
    changed.wait(&mut 7);
}

fn mapped_guard(lock: &Mutex<(u32, u32)>, changed: &Condvar) {
    let mut first = MutexGuard::map(lock.lock(), |pair| &mut pair.0);
    changed.wait(&mut first);
}

fn borrowed(lock: &Mutex<Vec<u32>>, changed: &Condvar) {
    let mut guard = lock.lock();
    let first = &guard[0];
    changed.wait(&mut guard);
    println!("{first}");
}

fn main() {
    *NO_MECHANISM.lock() += 1;
    println!("{}", counts(&NOT_COUNTED));
}
