//! A mechanism that counts its uses.

use std::fmt;
use std::sync::atomic::AtomicU64;

use super::{Interlocked, Interventions, RawMutex, RawSpin, TestAndSet};
use crate::sync::Ordering;

/// A mechanism that counts what table 3 and section 4.3 of B91 count. A lock without it counts
/// nothing, and pays nothing.
///
/// An acquisition takes two more plain instructions. Finding the lock held, and blocking, take one
/// atomic instruction each.
///
/// ```
/// use atomseq::mutex::{Counted, Interlocked, MutexBy, counts};
///
/// static LOCK: MutexBy<Counted<Interlocked>, u64> = MutexBy::new(0);
///
/// *LOCK.lock() += 1;
/// let guard = LOCK.lock();
/// assert!(LOCK.try_lock().is_none());
/// drop(guard);
/// let counts = counts(&LOCK);
/// assert_eq!((counts.acquisitions, counts.found_held, counts.blocks), (2, 1, 0));
/// ```
#[derive(Debug, Default)]
pub struct Counted<M = Interlocked> {
    mechanism: M,
    acquisitions: AtomicU64,
    found_held: AtomicU64,
    blocks: AtomicU64,
}

/// The events of a lock so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// The number of acquisitions.
    pub acquisitions: u64,
    /// How often a thread found the lock held (B91, section 4.3). A wait counts once.
    pub found_held: u64,
    /// How often a thread gave up its processor because the lock was held (B91, table 3). Counts
    /// each time that a thread is about to sleep, even if its deadline has passed or the lock was
    /// unlocked meanwhile. For a [`SpinLock`](super::SpinLock), counts each yield after the first
    /// rounds of a wait. The first rounds, in which a thread spins and then yields a few times, do
    /// not count.
    pub blocks: u64,
}

impl std::ops::Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            acquisitions: self.acquisitions + other.acquisitions,
            found_held: self.found_held + other.found_held,
            blocks: self.blocks + other.blocks,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "taken {} times, found held {} times, {} thread blocks",
            self.acquisitions, self.found_held, self.blocks
        )
    }
}

impl<M> Counted<M> {
    /// Returns the counts. Each number is exact. An event during the call may be in some of them
    /// only.
    pub fn counts(&self) -> Counts {
        // Relaxed: independent numbers.
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            acquisitions: read(&self.acquisitions),
            found_held: read(&self.found_held),
            blocks: read(&self.blocks),
        }
    }

    /// Counts an acquisition. The caller holds the lock, so no other thread adds at the same time.
    #[inline(always)]
    fn acquired(&self) {
        // Relaxed: only the holder accesses the count, and the lock orders one holder after
        // another.
        let before = self.acquisitions.load(Ordering::Relaxed);
        self.acquisitions.store(before + 1, Ordering::Relaxed);
    }
}

// SAFETY: all operations on the flag are forwarded to the mechanism.
unsafe impl<M: TestAndSet> TestAndSet for Counted<M> {
    type Scope = M::Scope;
    type GuardMarker = M::GuardMarker;
    const NAME: &'static str = M::NAME;
    const CLEAR: Counted<M> = Counted {
        mechanism: M::CLEAR,
        acquisitions: AtomicU64::new(0),
        found_held: AtomicU64::new(0),
        blocks: AtomicU64::new(0),
    };

    #[inline(always)]
    fn test_and_set(&self) -> bool {
        let taken = self.mechanism.test_and_set();
        if taken {
            self.acquired();
        }
        taken
    }

    #[inline(always)]
    unsafe fn clear(&self) {
        // SAFETY: the caller guarantees that it holds the flag.
        unsafe { self.mechanism.clear() }
    }

    #[inline(always)]
    fn is_set(&self) -> bool {
        self.mechanism.is_set()
    }

    #[inline(always)]
    unsafe fn clear_then_look(&self) {
        // SAFETY: the caller guarantees that it holds the flag.
        unsafe { self.mechanism.clear_then_look() }
    }

    #[inline(always)]
    fn waiter_barrier(&self) {
        self.mechanism.waiter_barrier();
    }

    fn has_waiter_barrier(&self) -> bool {
        self.mechanism.has_waiter_barrier()
    }

    #[cold]
    fn found_held(&self) {
        // Relaxed, here and below: independent numbers.
        self.found_held.fetch_add(1, Ordering::Relaxed);
        self.mechanism.found_held();
    }

    fn handed_over(&self) {
        self.acquired();
        self.mechanism.handed_over();
    }

    #[cold]
    fn blocks(&self) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
        self.mechanism.blocks();
    }

    fn interventions() -> Interventions {
        M::interventions()
    }
}

/// A raw lock whose mechanism counts.
#[diagnostic::on_unimplemented(
    message = "`{Self}` counts nothing",
    label = "no counts",
    note = "wrap the lock's mechanism in `Counted`, as in `MutexBy<Counted<Interlocked>, T>`"
)]
pub trait HasCounts {
    /// Returns the counts.
    fn counts(&self) -> Counts;
}

impl<M: TestAndSet> HasCounts for RawMutex<Counted<M>> {
    fn counts(&self) -> Counts {
        self.mechanism().counts()
    }
}

impl<M: TestAndSet> HasCounts for RawSpin<Counted<M>> {
    fn counts(&self) -> Counts {
        self.mechanism().counts()
    }
}

/// Returns the counts of a lock whose mechanism is [`Counted`].
pub fn counts<R: lock_api::RawMutex + HasCounts, T: ?Sized>(
    lock: &lock_api::Mutex<R, T>,
) -> Counts {
    // SAFETY: the raw lock is only read, and not unlocked.
    unsafe { lock.raw() }.counts()
}
