//! The lock is let go of while a thread waits, so nothing that it guards may be borrowed.

use atomseq::mutex::{Condvar, Mutex};

fn main() {
    let (lock, changed) = (Mutex::<Vec<u32>>::new(vec![1]), Condvar::new());
    let mut guard = lock.lock();
    let first = &guard[0];
    changed.wait(&mut guard);
    println!("{first}");
}
