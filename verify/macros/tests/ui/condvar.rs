//! Waits without a lock to release, with a guard of a part that could be gone when the lock is
//! acquired again, and while something that the lock guards is borrowed.

use atomseq::mutex::{Condvar, Mutex};
use atomseq::mutex::lock_api::MutexGuard;

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

fn main() {}
