//! A counting semaphore. `permits.rs` has the algorithm by which threads wait for a permit.

use std::fmt;
use std::time::{Duration, Instant};

use super::deadline::Deadline;
use super::permits;
use crate::sync::AtomicU32;

/// A counting semaphore: a limited number of permits can be held at once, and other threads wait.
///
/// Scope [`Machine`](crate::scope::Machine). Taking a permit and releasing one cost one atomic
/// instruction each, and a system call if threads sleep. A permit is not tied to a thread: another
/// thread may release it, and so may a signal handler, because [`release`](Semaphore::release) is
/// lock-free.
///
/// ```
/// use atomseq::mutex::Semaphore;
///
/// static CONNECTIONS: Semaphore = Semaphore::new(2);
///
/// let first = CONNECTIONS.acquire();
/// let second = CONNECTIONS.acquire();
/// assert!(CONNECTIONS.try_acquire().is_none());
/// drop(first);
/// assert_eq!(CONNECTIONS.permits(), 1);
/// # drop(second);
/// ```
///
/// A semaphore is not fair: a thread that finds a permit takes it, even if others have slept
/// longer. Of the sleeping threads, one of the highest real-time priority is woken first, and of
/// those the one that has slept longest. A thread that exits while it holds a [`Permit`] does not
/// release it; a guard that is dropped during unwinding does.
///
/// # Wake-ups
///
/// A release wakes as many sleeping threads as it adds permits. Until one of these has run, or
/// another thread falls asleep, later releases wake no thread, which keeps them cheap; the thread
/// that runs wakes the next one if there are permits left. A woken thread that cannot run, because
/// threads of higher priority keep its CPU busy, therefore keeps others asleep although there are
/// permits. [`release_many`](Semaphore::release_many) wakes a thread for each of its permits.
///
/// A thread that exits asleep, because a handler makes the system call, consumes no later wake-up.
/// A thread that exits after it was woken and before it has run suppresses later wake-ups, until
/// another thread falls asleep here and a permit is released, or a sleeper's deadline passes.
pub struct Semaphore {
    word: AtomicU32,
}

impl Semaphore {
    /// The maximum number of permits: 2^31 - 1.
    pub const MAX: u32 = permits::MAX;

    /// Creates a semaphore with `permits` permits.
    ///
    /// # Panics
    ///
    /// If `permits` exceeds [`MAX`](Semaphore::MAX). In a constant, the program does not compile.
    #[track_caller]
    pub const fn new(permits: u32) -> Semaphore {
        assert!(
            permits <= Semaphore::MAX,
            "a semaphore has at most 2^31 - 1 permits"
        );
        Semaphore {
            word: AtomicU32::new(permits),
        }
    }

    /// Takes a permit, sleeping until there is one.
    #[inline]
    pub fn acquire(&self) -> Permit<'_> {
        if !permits::try_acquire(&self.word) {
            permits::acquire(&self.word, |word, expected| {
                Deadline::Never.sleep(word, expected)
            });
        }
        Permit { semaphore: self }
    }

    /// Takes a permit if there is one. Lock-free and async-signal-safe.
    #[inline]
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        permits::try_acquire(&self.word).then(|| Permit { semaphore: self })
    }

    /// Takes a permit, sleeping until there is one, for at most `timeout`.
    #[inline]
    pub fn try_acquire_for(&self, timeout: Duration) -> Option<Permit<'_>> {
        self.try_acquire()
            .or_else(|| self.acquire_slowly(Deadline::after(timeout)))
    }

    /// Takes a permit, sleeping until there is one, at most until `deadline`.
    #[inline]
    pub fn try_acquire_until(&self, deadline: Instant) -> Option<Permit<'_>> {
        self.try_acquire()
            .or_else(|| self.acquire_slowly(Deadline::at(deadline)))
    }

    /// Adds a permit: one that was [forgotten](Permit::forget), or a new one. Lock-free and
    /// async-signal-safe.
    ///
    /// # Errors
    ///
    /// [`TooManyPermits`] if there would be more than [`MAX`](Semaphore::MAX). Then nothing
    /// changed.
    #[inline]
    pub fn release(&self) -> Result<(), TooManyPermits> {
        self.release_many(1)
    }

    /// Adds permits, and wakes as many sleeping threads. Lock-free and async-signal-safe.
    ///
    /// # Errors
    ///
    /// [`TooManyPermits`] if there would be more than [`MAX`](Semaphore::MAX). Then nothing
    /// changed.
    #[inline]
    pub fn release_many(&self, permits: u32) -> Result<(), TooManyPermits> {
        match permits::release(&self.word, permits) {
            true => Ok(()),
            false => Err(TooManyPermits),
        }
    }

    /// Returns the number of free permits. The result may be out of date when the call returns.
    pub fn permits(&self) -> u32 {
        permits::count(&self.word)
    }

    #[cold]
    fn acquire_slowly(&self, deadline: Deadline) -> Option<Permit<'_>> {
        permits::acquire(&self.word, |word, expected| deadline.sleep(word, expected))
            .then(|| Permit { semaphore: self })
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("permits", &self.permits())
            .finish()
    }
}

/// A permit of a [`Semaphore`], released when it is dropped.
#[derive(Debug)]
#[must_use = "the permit is released at once unless it is kept"]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
}

impl Permit<'_> {
    /// Keeps the permit taken. [`Semaphore::release`] can add it again.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        // Fails only if more permits were added than were forgotten. Then this permit is one of the
        // surplus.
        let _ = self.semaphore.release();
    }
}

/// The error of a release after which a [`Semaphore`] would have had more than [`Semaphore::MAX`]
/// permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyPermits;

impl fmt::Display for TooManyPermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the semaphore would have more than 2^31 - 1 permits: release each permit only once",
        )
    }
}

impl std::error::Error for TooManyPermits {}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_release_beyond_the_maximum_is_refused() {
        let semaphore = Semaphore::new(Semaphore::MAX - 1);
        assert_eq!(semaphore.release_many(2), Err(TooManyPermits));
        assert_eq!(semaphore.release(), Ok(()));
        assert_eq!(semaphore.release(), Err(TooManyPermits));
        assert_eq!(semaphore.release_many(u32::MAX), Err(TooManyPermits));
        assert_eq!(semaphore.permits(), Semaphore::MAX);
    }

    #[test]
    fn forgotten_permits_stay_taken() {
        let semaphore = Semaphore::new(1);
        semaphore.acquire().forget();
        assert!(semaphore.try_acquire().is_none());
        semaphore.release().unwrap();
        assert!(semaphore.try_acquire().is_some());
        assert_eq!(semaphore.permits(), 1);
    }

    #[test]
    fn release_many_wakes_a_thread_for_each_permit() {
        let semaphore = Semaphore::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| semaphore.acquire().forget());
            }
            thread::sleep(Duration::from_millis(20));
            semaphore.release_many(4).unwrap();
        });
        assert_eq!(semaphore.permits(), 0);
    }
}
