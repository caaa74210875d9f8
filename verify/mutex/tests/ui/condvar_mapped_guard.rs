//! What was mapped could be gone when the lock is taken again.

use atomseq::mutex::{Condvar, Mutex};
use lock_api::MutexGuard;

fn main() {
    let (lock, changed) = (Mutex::<(u32, u32)>::new((0, 0)), Condvar::new());
    let mut first = MutexGuard::map(lock.lock(), |pair| &mut pair.0);
    changed.wait(&mut first);
}
