//! A lock that the child of a fork takes over: the thread that held it then is not in the child.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use atomseq::internals::{generation, start, wait_at_most};

/// How long a thread waits before it looks again whether the lock is free.
const PAUSE: Duration = Duration::from_micros(20);

/// The generation of the process whose thread holds the lock, or 0. A child of a fork finds its
/// parent's. One that shares memory with its parent, as that of a vfork, has the same generation:
/// the holder exists. (Process numbers would not do: that child has one of its own, and a child in
/// a new PID namespace may have its parent's.)
pub struct Lock(AtomicU32);

/// The lock is held until this is dropped.
pub struct Held {
    lock: &'static Lock,
    /// Whether a thread of a parent held it.
    pub is_taken_over: bool,
}

impl Lock {
    pub const fn new() -> Lock {
        Lock(AtomicU32::new(0))
    }

    /// Takes the lock. Waits for another thread of this process.
    pub fn take(&'static self) -> Held {
        // Before that, processes have no generations.
        start();
        loop {
            match self.try_take() {
                Some(held) => return held,
                // Not a mere yield: the holder's priority may be lower. Nor `thread::sleep`, in
                // which a cancelled thread ends: handlers wait here.
                None => _ = wait_at_most(&self.0, generation(), PAUSE),
            }
        }
    }

    /// Returns whether a thread of a parent held the lock at the fork, and no thread of this
    /// process has taken it since.
    pub fn is_inherited(&self) -> bool {
        let holder = self.0.load(Ordering::Relaxed);
        holder != 0 && holder != generation()
    }

    /// Takes the lock unless a thread of this process holds it.
    pub fn try_take(&'static self) -> Option<Held> {
        let own = generation();
        let holder = self.0.load(Ordering::Relaxed);
        if holder == own {
            return None;
        }
        // Acquire: pairs with the Release in `drop`, whose thread has finished its work.
        let taken = (self.0).compare_exchange(holder, own, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|holder| Held {
            lock: self,
            is_taken_over: holder != 0,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `try_take`.
        self.lock.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    unsafe extern "C" {
        fn pthread_cancel(thread: libc::pthread_t) -> libc::c_int;
    }

    /// A handler may wait here in the middle of code that is no cancellation point. Otherwise the
    /// process would be aborted.
    #[test]
    fn a_cancelled_thread_waits_for_the_lock() {
        static LOCK: Lock = Lock::new();
        static IS_CANCELLED: AtomicBool = AtomicBool::new(false);
        let held = LOCK.take();
        let waiter = thread::spawn(|| {
            // SAFETY: this thread.
            assert_eq!(unsafe { pthread_cancel(libc::pthread_self()) }, 0);
            IS_CANCELLED.store(true, Ordering::Release);
            LOCK.take().is_taken_over
        });
        while !IS_CANCELLED.load(Ordering::Acquire) {
            thread::yield_now();
        }
        thread::sleep(1000 * PAUSE);
        drop(held);
        assert!(!waiter.join().expect("the waiter"));
    }
}
