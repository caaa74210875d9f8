//! Test-and-set that counts.

use std::fmt;
use std::sync::atomic::AtomicU64;

use super::{Interlocked, Interventions, RawMutex, RawSpin, TestAndSet};
use crate::sync::Ordering;

/// A mechanism that counts what B91 table 3 and section 4.3 count; without it, nothing is counted
/// and nothing paid.
///
/// An acquisition costs two plain instructions more; finding the lock held, or blocking, an atomic
/// one.
///
/// ```
/// use atomseq::mutex::{Counted, Interlocked, Mutex, counts};
///
/// static LOCK: Mutex<u64, Counted<Interlocked>> = Mutex::new(0);
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

/// What happened to a lock so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// How often it was taken.
    pub acquisitions: u64,
    /// How often somebody wanted it and found it held (B91 4.3). A wait counts once.
    pub found_held: u64,
    /// How often a thread gave up its processor because of that (B91 table 3): once for each time
    /// that it is about to sleep, even if it then finds that its time is up or that the lock was
    /// unlocked meanwhile; in a [`SpinLock`](super::SpinLock), for each time that it lets others
    /// run. The first rounds of a wait, in which the thread spins and then lets others run a few
    /// times, are not counted.
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
    /// What it counted. Each number is exact; what happens while they are read may be in some of
    /// them only.
    pub fn counts(&self) -> Counts {
        // Relaxed: numbers that nothing else hangs on.
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            acquisitions: read(&self.acquisitions),
            found_held: read(&self.found_held),
            blocks: read(&self.blocks),
        }
    }

    /// Whoever calls holds what the mechanism guards, so nobody else adds meanwhile.
    #[inline(always)]
    fn acquired(&self) {
        // Relaxed: the holder's alone, and what a holder has written is seen by the next.
        let before = self.acquisitions.load(Ordering::Relaxed);
        self.acquisitions.store(before + 1, Ordering::Relaxed);
    }
}

// SAFETY: sets, clears and looks as the mechanism does.
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
        // SAFETY: the caller's promise.
        unsafe { self.mechanism.clear() }
    }

    #[inline(always)]
    fn is_set(&self) -> bool {
        self.mechanism.is_set()
    }

    #[inline(always)]
    unsafe fn clear_then_look(&self) {
        // SAFETY: the caller's promise.
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
        // Relaxed, here and below: numbers that nothing else hangs on.
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
    note = "wrap the lock's mechanism in `Counted`, as in `Mutex<T, Counted<Interlocked>>`"
)]
pub trait HasCounts {
    /// What it counted.
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

/// What a lock counted whose mechanism is [`Counted`].
pub fn counts<R: lock_api::RawMutex + HasCounts, T: ?Sized>(
    lock: &lock_api::Mutex<R, T>,
) -> Counts {
    // SAFETY: the raw lock is read, and not unlocked.
    unsafe { lock.raw() }.counts()
}
