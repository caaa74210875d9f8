//! A lock that coroutines share with other kernel threads.

use core::fmt;
use std::time::Duration;

use atomseq::mutex::{Interlocked, RawMutex};
use lock_api::{RawMutex as _, RawMutexTimed as _};

use super::scheduler::{Others, scheduler};

/// How long a thread sleeps whose coroutines all wait for locks like these.
const BRIEFLY: Duration = Duration::from_millis(1);

/// The raw lock of [`SharedMutex`]: that of [`atomseq::mutex::Mutex`].
pub struct RawSharedMutex(RawMutex<Interlocked>);

/// A lock between coroutines of several kernel threads, and threads without coroutines. A coroutine
/// that waits lets the others of its thread run, where with [`atomseq::mutex::Mutex`] the thread
/// would sleep, and all of them with it.
///
/// Locking takes one atomic instruction, and unlocking a store. A waiter tries again when its turn
/// comes, so while it waits, a switch that leads to it takes longer. If no other coroutine of its
/// thread is ready, the thread sleeps; if all that are ready wait for such locks, for at most a
/// millisecond at a time, after which each of them tries once. Not fair.
///
/// ```
/// use atomseq_threads::coroutine::{self, SharedMutex};
///
/// static SUM: SharedMutex<u64> = SharedMutex::new(0);
///
/// let threads = [1, 2].map(|n| {
///     let add_thrice = move || {
///         for _ in 0..3 {
///             drop(coroutine::spawn(move || {
///                 let mut sum = SUM.lock();
///                 coroutine::yield_now(); // the others go on, also those that wait
///                 *sum += n;
///             }));
///         }
///     };
///     // SAFETY: switches outside of thread-locals.
///     std::thread::spawn(move || unsafe { coroutine::run(add_thrice) })
/// });
/// for thread in threads {
///     thread.join().unwrap();
/// }
/// assert_eq!(*SUM.lock(), 9);
/// ```
///
/// A coroutine that locks what its own thread's coroutines cannot unlock any more waits
/// indefinitely: another thread could unlock it. Signal handlers may `try_lock` only.
pub type SharedMutex<T> = lock_api::Mutex<RawSharedMutex, T>;

/// The guard of a [`SharedMutex`].
pub type SharedMutexGuard<'a, T> = lock_api::MutexGuard<'a, RawSharedMutex, T>;

impl fmt::Debug for RawSharedMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawSharedMutex")
            .field("is_locked", &self.0.is_locked())
            .finish_non_exhaustive()
    }
}

// SAFETY: `lock` and `try_lock` return (true) only when the lock inside was locked, and only
// `unlock` unlocks it.
unsafe impl lock_api::RawMutex for RawSharedMutex {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to make new ones"
    )]
    const INIT: RawSharedMutex = RawSharedMutex(RawMutex::INIT);

    type GuardMarker = <RawMutex<Interlocked> as lock_api::RawMutex>::GuardMarker;

    #[inline]
    fn lock(&self) {
        if !self.0.try_lock() {
            self.wait();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.0.unlock() }
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

impl RawSharedMutex {
    #[cold]
    fn wait(&self) {
        let Some(scheduler) = scheduler() else {
            return self.0.lock();
        };
        let current = scheduler.current();
        current.polls.set(true);
        loop {
            let is_locked = match scheduler.others() {
                Others::Run => {
                    scheduler.yield_now();
                    self.0.try_lock()
                }
                Others::Poll => {
                    let is_locked = self.0.try_lock_for(BRIEFLY);
                    if !is_locked {
                        scheduler.yield_now();
                    }
                    is_locked
                }
                Others::Wait => {
                    self.0.lock();
                    true
                }
            };
            if is_locked {
                break;
            }
        }
        current.polls.set(false);
    }
}
