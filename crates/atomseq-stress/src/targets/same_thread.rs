//! Locks of scope `SameThread`, which a worker shares with its signal handlers.
//!
//! A handler returns before the thread that it interrupted runs again, so a handler that releases the
//! lock never conflicts with that thread: even a test-and-set in two halves would pass. So handlers
//! sometimes return with the lock held. The next lane that finds it held takes it over.

use std::sync::atomic::{AtomicBool, Ordering};

use atomseq::mutex::{Masked, RawSpin, Restarting, Rolling, TestAndSet};

use super::section::Section;
use crate::engine::invariant::{Checked, Violation};
use crate::engine::lane::{Activity, Lane};

/// A lock that a worker shares with its handlers.
pub struct SameThreadLock<M: TestAndSet> {
    lock: lock_api::Mutex<RawSpin<M>, Section>,
    /// Whether a handler has returned with the lock held; the lane that makes this false owns it.
    kept: AtomicBool,
}

impl<M: TestAndSet> SameThreadLock<M> {
    fn new(name: &'static str) -> SameThreadLock<M> {
        SameThreadLock {
            lock: lock_api::Mutex::new(Section::new(name)),
            kept: AtomicBool::new(false),
        }
    }

    /// Acquires the lock or takes it over from a handler, enters its section, and releases it; a
    /// handler sometimes keeps it. Returns whether it was acquired.
    fn enter(&self, lane: &mut Lane, sum: usize, is_handler: bool) -> Checked {
        lane.begin(Activity::HandlersLock);
        if let Some(section) = self.lock.try_lock() {
            section.enter(lane, sum)?;
            // Acquire and release, here and below: one thread and its handlers, in program order.
            if self.kept.load(Ordering::Acquire) {
                return Err(Violation::new(
                    "a lock was acquired that a handler had kept",
                ));
            }
            if is_handler && lane.one_in(4) {
                std::mem::forget(section);
                // Last: another handler may take it over at once.
                self.kept.store(true, Ordering::Release);
            }
        } else if self.kept.swap(false, Ordering::Acquire) {
            // SAFETY: the handler that kept it was the owner, and passed it on.
            let checked = unsafe { (*self.lock.data_ptr()).enter(lane, sum) };
            // SAFETY: this lane owns it; no guard is left.
            unsafe { self.lock.force_unlock() };
            checked?;
        }
        Ok(())
    }

    /// Makes the final check: no lane owns the lock, unless a handler has kept it.
    fn check_final(&self, lanes: &[Lane], sum: usize) -> Checked {
        if self.kept.swap(false, Ordering::Acquire) {
            // SAFETY: the handler that kept it was the owner.
            unsafe { self.lock.force_unlock() };
        }
        match self.lock.try_lock() {
            Some(section) => section.check_final(lanes, sum),
            None => Err(Violation::new(
                "a lock is held after all lanes have released it",
            )),
        }
    }
}

/// One lock by each mechanism.
pub struct SameThreadLocks {
    restarting: SameThreadLock<Restarting>,
    rolling: SameThreadLock<Rolling>,
    masked: SameThreadLock<Masked>,
    /// The index of the lanes' sum of acquisitions of the first one; the next two follow.
    sum: usize,
}

// SAFETY: one thread uses the locks: from the start to the end of a round, the worker that calls
// `enter`, with its handlers; before and after that, the director.
unsafe impl Send for SameThreadLocks {}
// SAFETY: as above.
unsafe impl Sync for SameThreadLocks {}

impl SameThreadLocks {
    /// Returns locks that are not held.
    pub fn new(sum: usize) -> SameThreadLocks {
        SameThreadLocks {
            restarting: SameThreadLock::new("inside the spin lock by restarting"),
            rolling: SameThreadLock::new("inside the spin lock by rolling"),
            masked: SameThreadLock::new("inside the spin lock by masked"),
            sum,
        }
    }

    /// Enters one of the locks.
    ///
    /// # Safety
    ///
    /// Only one thread and its handlers call it.
    pub unsafe fn enter(&self, lane: &mut Lane, is_handler: bool) -> Checked {
        match lane.rng.usize(..3) {
            0 => self.restarting.enter(lane, self.sum, is_handler),
            1 => self.rolling.enter(lane, self.sum + 1, is_handler),
            _ => self.masked.enter(lane, self.sum + 2, is_handler),
        }
    }

    /// Makes the final check.
    pub fn check_final(&self, lanes: &[Lane]) -> Checked {
        self.restarting.check_final(lanes, self.sum)?;
        self.rolling.check_final(lanes, self.sum + 1)?;
        self.masked.check_final(lanes, self.sum + 2)
    }
}
