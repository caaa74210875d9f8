//! Semaphores of coroutines.

use core::cell::Cell;
use core::fmt;

use atomseq::mutex::{Semaphore as Threads, TooManyPermits};

use super::scheduler::{Queue, expect_scheduler, inside};

/// A counting semaphore: a limited number of permits can be held at once, and other coroutines
/// wait, first in, first out.
///
/// Taking a permit and releasing one take no atomic instruction and no system call. Fair: a release
/// gives its permit to the coroutine that has waited longest, if one waits. A permit is not tied to
/// a coroutine.
///
/// ```
/// use atomseq_threads::coroutine::{self, Semaphore};
///
/// let connections = Semaphore::new(2);
/// let busiest = || {
///     let (open, busiest) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
///     coroutine::scope(|scope| {
///         for _ in 0..5 {
///             drop(scope.spawn(|| {
///                 let _permit = connections.acquire();
///                 open.set(open.get() + 1);
///                 busiest.set(busiest.get().max(open.get()));
///                 coroutine::yield_now();
///                 open.set(open.get() - 1);
///             }));
///         }
///     });
///     busiest.get()
/// };
/// // SAFETY: switches outside of thread-locals.
/// let busiest = unsafe { coroutine::run(busiest) };
/// assert_eq!((busiest, connections.permits()), (2, 2));
/// ```
pub struct Semaphore {
    /// Zero while a coroutine waits.
    permits: Cell<u32>,
    waiting: Queue,
}

impl Semaphore {
    /// The maximum number of permits: 2^31 - 1.
    pub const MAX: u32 = Threads::MAX;

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
            permits: Cell::new(permits),
            waiting: Queue::new(),
        }
    }

    /// Takes a permit, waiting until there is one.
    ///
    /// # Panics
    ///
    /// If there is none, and this is outside of [`run`](super::run), or no other coroutine can run,
    /// so that none can release one.
    #[track_caller]
    pub fn acquire(&self) -> Permit<'_> {
        if let Some(permit) = self.try_acquire() {
            return permit;
        }
        let scheduler = expect_scheduler();
        scheduler.begin();
        let is_granted = self.take() || scheduler.wait_in(&self.waiting);
        scheduler.end();
        if !is_granted {
            panic!("all coroutines wait, so none can release a permit");
        }
        Permit { semaphore: self }
    }

    /// Takes a permit if there is one.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        inside(|_| self.take()).then(|| Permit { semaphore: self })
    }

    /// Takes a permit if there is one. Called between `begin` and `end`.
    fn take(&self) -> bool {
        let left = self.permits.get().checked_sub(1);
        if let Some(left) = left {
            self.permits.set(left);
        }
        left.is_some()
    }

    /// Adds a permit: one that was [forgotten](Permit::forget), or a new one.
    ///
    /// # Errors
    ///
    /// [`TooManyPermits`] if there would be more than [`MAX`](Semaphore::MAX). Then nothing
    /// changed.
    pub fn release(&self) -> Result<(), TooManyPermits> {
        self.release_many(1)
    }

    /// Adds permits, and wakes as many coroutines.
    ///
    /// # Errors
    ///
    /// As [`release`](Semaphore::release).
    pub fn release_many(&self, permits: u32) -> Result<(), TooManyPermits> {
        inside(|scheduler| {
            let mut sum = Some(self.permits.get())
                .and_then(|left| left.checked_add(permits))
                .filter(|&sum| sum <= Semaphore::MAX)
                .ok_or(TooManyPermits)?;
            if let Some(scheduler) = scheduler {
                // Those that wait have found none, so all of these are new.
                while sum > 0 && scheduler.wake_one(&self.waiting) {
                    sum -= 1;
                }
            }
            self.permits.set(sum);
            Ok(())
        })
    }

    /// Returns the number of free permits.
    pub fn permits(&self) -> u32 {
        self.permits.get()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("permits", &self.permits())
            .finish_non_exhaustive()
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
        core::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        // Fails only if more permits were added than were forgotten. Then this permit is one of the
        // surplus.
        let _ = self.semaphore.release();
    }
}
