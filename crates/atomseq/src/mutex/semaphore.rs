//! A number of permits. How threads wait for one is in `permits.rs`.

use std::fmt;
use std::time::{Duration, Instant};

use super::deadline::Deadline;
use super::permits;
use crate::sync::AtomicU32;

/// A counting semaphore: so many may hold a permit at once, and others wait.
///
/// Scope [`Machine`](crate::scope::Machine). Taking a permit and giving one back cost one atomic
/// instruction each, and a system call where threads sleep. Nobody owns a permit: it may be given
/// back by another thread, and by a signal handler, which waits for nothing
/// ([`release`](Semaphore::release) is lock-free).
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
/// Not fair: one that comes when a permit is there takes it, even if others have slept longer. The
/// one woken first is the one that has slept longest. A thread that ends while it holds a
/// [`Permit`] does not give it back; a guard that is dropped when a panic unwinds does.
///
/// # Wake-ups
///
/// A release wakes as many sleeping threads as it adds permits. Until one of those has run, later
/// releases wake no thread, which keeps them cheap: the one that runs wakes the next where there
/// are permits left. So with single releases, a woken thread that cannot run, since threads of
/// higher priority keep its CPU busy, keeps others asleep beside free permits;
/// [`release_many`](Semaphore::release_many) wakes all that it has permits for.
///
/// A thread that exits asleep, by the system call in a handler, takes no wake-up along that was
/// made later. One that exits after it was woken and before it has run leaves later releases
/// silent, until one more thread falls asleep here and a permit is released, or a sleeper's time is
/// up.
pub struct Semaphore {
    word: AtomicU32,
}

impl Semaphore {
    /// The most permits there can be: 2^31 - 1.
    pub const MAX: u32 = permits::MAX;

    /// One with so many permits.
    ///
    /// # Panics
    ///
    /// If that is more than [`MAX`](Semaphore::MAX); in a constant, the program does not compile.
    pub const fn new(permits: u32) -> Semaphore {
        assert!(
            permits <= Semaphore::MAX,
            "a semaphore has at most 2^31 - 1 permits"
        );
        Semaphore {
            word: AtomicU32::new(permits),
        }
    }

    /// Takes a permit; sleeps until there is one.
    #[inline]
    pub fn acquire(&self) -> Permit<'_> {
        if !permits::try_acquire(&self.word) {
            permits::acquire(&self.word, |word, expected| {
                Deadline::Never.sleep(word, expected)
            });
        }
        Permit { semaphore: self }
    }

    /// Takes a permit if there is one. Lock-free; async-signal-safe.
    #[inline]
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        permits::try_acquire(&self.word).then(|| Permit { semaphore: self })
    }

    /// Takes a permit; sleeps until there is one, for so long at most.
    #[inline]
    pub fn try_acquire_for(&self, timeout: Duration) -> Option<Permit<'_>> {
        self.try_acquire()
            .or_else(|| self.acquire_slowly(Deadline::after(timeout)))
    }

    /// Takes a permit; sleeps until there is one, until then at most.
    #[inline]
    pub fn try_acquire_until(&self, deadline: Instant) -> Option<Permit<'_>> {
        self.try_acquire()
            .or_else(|| self.acquire_slowly(Deadline::at(deadline)))
    }

    /// Adds a permit: one that was [forgotten](Permit::forget), or a new one. Lock-free;
    /// async-signal-safe.
    ///
    /// # Errors
    ///
    /// [`TooManyPermits`], and then nothing was added.
    #[inline]
    pub fn release(&self) -> Result<(), TooManyPermits> {
        self.release_many(1)
    }

    /// Adds permits, and wakes as many of the threads that sleep. Lock-free; async-signal-safe.
    ///
    /// # Errors
    ///
    /// As [`release`](Semaphore::release).
    #[inline]
    pub fn release_many(&self, permits: u32) -> Result<(), TooManyPermits> {
        match permits::release(&self.word, permits) {
            true => Ok(()),
            false => Err(TooManyPermits),
        }
    }

    /// How many there are to take; already out of date when it returns.
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

/// A permit of a [`Semaphore`], given back when this is dropped.
#[derive(Debug)]
#[must_use = "it is given back at once unless it is kept"]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
}

impl Permit<'_> {
    /// Keeps it taken, until somebody calls [`Semaphore::release`].
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        // Only where permits were added beyond those that there were is there no room for it, and
        // then it is one of them.
        let _ = self.semaphore.release();
    }
}

/// A [`Semaphore`] would have had more than [`Semaphore::MAX`] permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyPermits;

impl fmt::Display for TooManyPermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the semaphore would have more than 2^31 - 1 permits; release each permit once only",
        )
    }
}

impl std::error::Error for TooManyPermits {}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_permit_too_many_is_refused() {
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
    fn one_release_of_many_wakes_all() {
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
