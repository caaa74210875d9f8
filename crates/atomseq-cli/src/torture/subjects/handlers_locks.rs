//! Locks of scope `SameThread`: a worker's, and its signal handlers'.

use std::sync::atomic::{AtomicBool, Ordering};

use atomseq::mutex::{Masked, RawSpin, Restarting, Rolling, TestAndSet};

use crate::torture::harness::lane::{Doing, Lane};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::subjects::section::Section;

/// A lock that a worker shares with its handlers.
struct Shared<M: TestAndSet> {
    lock: lock_api::Mutex<RawSpin<M>, Section>,
    /// A handler has ended with the lock held; whoever makes this false has it.
    kept: AtomicBool,
}

impl<M: TestAndSet> Shared<M> {
    fn new(name: &'static str) -> Shared<M> {
        Shared {
            lock: lock_api::Mutex::new(Section::new(name)),
            kept: AtomicBool::new(false),
        }
    }

    /// Holds it for a moment, or tries to. A handler at times ends with it held: one that gives it
    /// back is never in the way of whom it interrupted.
    fn enter(&self, lane: &mut Lane, sum: usize, is_handler: bool) -> Checked {
        lane.begin(Doing::HandlersLock);
        if let Some(section) = self.lock.try_lock() {
            section.go_through(lane, sum)?;
            // Acquire and release, here and below: one thread and its handlers, in the program's
            // order.
            if self.kept.load(Ordering::Acquire) {
                return Err(Broken::new("a lock was taken that a handler had kept"));
            }
            if is_handler && lane.one_in(4) {
                std::mem::forget(section);
                // Last: another handler may have it at once.
                self.kept.store(true, Ordering::Release);
            }
        } else if self.kept.swap(false, Ordering::Acquire) {
            // SAFETY: the handler that kept it had the right to, and passed it on.
            let checked = unsafe { (*self.lock.data_ptr()).go_through(lane, sum) };
            // SAFETY: as above; no guard is left.
            unsafe { self.lock.force_unlock() };
            checked?;
        }
        Ok(())
    }

    /// Handlers have kept it, or nobody has it.
    fn settle(&self, lanes: &[Lane], sum: usize) -> Checked {
        if self.kept.swap(false, Ordering::Acquire) {
            // SAFETY: as in `enter`.
            unsafe { self.lock.force_unlock() };
        }
        match self.lock.try_lock() {
            Some(section) => section.settle(lanes, sum),
            None => Err(Broken::new("a lock is held after all have released it")),
        }
    }
}

/// One by each mechanism.
pub struct HandlersLocks {
    restarting: Shared<Restarting>,
    rolling: Shared<Rolling>,
    masked: Shared<Masked>,
    /// Where lanes count how often they held the first one; the next two follow.
    sum: usize,
}

// SAFETY: the locks are one thread's. That is the worker that [`HandlersLocks::enter`] is called
// by, with its handlers, from its round's beginning to its end; before and after that the director
// has the round to itself.
unsafe impl Send for HandlersLocks {}
// SAFETY: as above.
unsafe impl Sync for HandlersLocks {}

impl HandlersLocks {
    /// Nobody holds any.
    pub fn new(sum: usize) -> HandlersLocks {
        HandlersLocks {
            restarting: Shared::new("inside the spin lock by restarting"),
            rolling: Shared::new("inside the spin lock by rolling"),
            masked: Shared::new("inside the spin lock by masked"),
            sum,
        }
    }

    /// Holds one for a moment, or tries to.
    ///
    /// # Safety
    ///
    /// Called by one thread and its handlers.
    pub unsafe fn enter(&self, lane: &mut Lane, is_handler: bool) -> Checked {
        match lane.rng.usize(..3) {
            0 => self.restarting.enter(lane, self.sum, is_handler),
            1 => self.rolling.enter(lane, self.sum + 1, is_handler),
            _ => self.masked.enter(lane, self.sum + 2, is_handler),
        }
    }

    /// All have stopped.
    pub fn settle(&self, lanes: &[Lane]) -> Checked {
        self.restarting.settle(lanes, self.sum)?;
        self.rolling.settle(lanes, self.sum + 1)?;
        self.masked.settle(lanes, self.sum + 2)
    }
}
