//! Locks of scope `SameThread`, which a worker shares with its signal handlers.
//!
//! A handler returns before the thread that it interrupted runs again, so a handler that releases
//! the lock never conflicts with that thread: even a test-and-set in two halves would pass. So
//! handlers sometimes return with the lock held. The next lane that finds it held takes it over.

use std::sync::atomic::{AtomicBool, Ordering};

use atomseq::mutex::{Masked, RawSpin, Restarting, Rolling};
use crossbeam_utils::CachePadded;
use lock_api::RawMutex;

use super::section::Section;
use crate::engine::invariant::{Checked, Violation};
use crate::engine::lane::{Activity, LANES_PER_WORKER, Lane};
use crate::engine::{Round, Setting};
use crate::system;

/// A lock that a worker shares with its handlers.
struct SameThreadLock<R> {
    lock: lock_api::Mutex<R, Section>,
    /// Whether a handler has returned with the lock held; the lane that makes this false owns it.
    kept: AtomicBool,
}

impl<R: RawMutex> SameThreadLock<R> {
    fn new(name: &'static str) -> SameThreadLock<R> {
        SameThreadLock {
            lock: lock_api::Mutex::new(Section::new(name)),
            kept: AtomicBool::new(false),
        }
    }

    /// Acquires the lock or takes it over from a handler, enters its section, and releases it; a
    /// handler sometimes keeps it. Returns whether it was acquired.
    #[inline(always)]
    fn enter(&self, lane: &mut Lane, sum: usize, is_handler: bool) -> Checked<bool> {
        lane.begin(Activity::HandlersLock);
        if let Some(section) = self.lock.try_lock() {
            section.enter_at_once(lane, sum)?;
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
            let checked = unsafe { (*self.lock.data_ptr()).enter_at_once(lane, sum) };
            // SAFETY: this lane owns it; no guard is left.
            unsafe { self.lock.force_unlock() };
            checked?;
        } else {
            return Ok(false);
        }
        Ok(true)
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
    restarting: SameThreadLock<RawSpin<Restarting>>,
    rolling: SameThreadLock<RawSpin<Rolling>>,
    masked: SameThreadLock<RawSpin<Masked>>,
    /// The index of the lanes' sum of acquisitions of the first one; the next two follow.
    sum: usize,
}

// SAFETY: one thread uses the locks: from the start to the end of a round, the worker that calls
// `enter`, with its handlers; before and after that, the director.
unsafe impl Send for SameThreadLocks {}
// SAFETY: one thread at a time uses the locks.
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
        let entered = match lane.rng.usize(..3) {
            0 => self.restarting.enter(lane, self.sum, is_handler),
            1 => self.rolling.enter(lane, self.sum + 1, is_handler),
            _ => self.masked.enter(lane, self.sum + 2, is_handler),
        };
        entered.map(drop)
    }

    /// Makes the final check.
    pub fn check_final(&self, lanes: &[Lane]) -> Checked {
        self.restarting.check_final(lanes, self.sum)?;
        self.rolling.check_final(lanes, self.sum + 1)?;
        self.masked.check_final(lanes, self.sum + 2)
    }
}

/// Where the workers of a [`SameThreadRound`] run.
///
/// If a lock has a home CPU, a thread that is moved away from it visits the lock in each
/// acquisition from then on. A visit takes three system calls and an interrupt of another CPU:
/// about as long as the period of a timer, and the handlers visit, too. So a round determines which
/// acquisitions are visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where the scheduler runs them.
    Anywhere,
    /// Each on one CPU, the home of its lock.
    Home,
    /// Each on two CPUs in turn, also while a handler keeps the lock.
    Both,
}

/// How many acquisitions a worker makes in a step, so that a signal is likely to interrupt one.
const BATCH: u64 = 8;

/// A round on one lock a worker, which its handlers try to acquire, too. It counts the acquisitions
/// by handlers.
pub struct SameThreadRound<R> {
    workers: Box<[CachePadded<Worker<R>>]>,
    place: Place,
    cpus: Vec<usize>,
}

struct Worker<R> {
    lock: SameThreadLock<R>,
    /// Whether the worker is on its first CPU, so that this becomes the home of its lock.
    is_placed: AtomicBool,
}

// SAFETY: one thread uses each lock: from the start to the end of a round, one worker with its
// handlers; before and after that, the director.
unsafe impl<R> Send for SameThreadRound<R> {}
// SAFETY: as for `Send`.
unsafe impl<R> Sync for SameThreadRound<R> {}

/// The index of the lanes' sum of acquisitions, and of the workers' number of steps.
const ENTERED: usize = 0;
const STEPS: usize = 1;

impl<R: RawMutex> SameThreadRound<R> {
    /// Returns locks that are not held, for workers that run on some of these CPUs.
    pub fn new(setting: &Setting, place: Place, cpus: Vec<usize>) -> SameThreadRound<R> {
        let workers = setting.lanes / LANES_PER_WORKER;
        let worker = |_| {
            CachePadded::new(Worker {
                lock: SameThreadLock::new("inside the lock"),
                is_placed: AtomicBool::new(place == Place::Anywhere),
            })
        };
        SameThreadRound {
            workers: (0..workers).map(worker).collect(),
            place,
            cpus,
        }
    }

    /// Moves a worker to the CPU on which it makes this step.
    fn place(&self, lane: &Lane, step: u64) {
        let number = lane.number / LANES_PER_WORKER;
        let turn = match self.place {
            Place::Both => step % 2,
            Place::Home if step == 0 => 0,
            _ => return,
        };
        let cpu = self.cpus[(number + turn as usize) % self.cpus.len()];
        system::move_thread(system::own_number(), &[cpu]);
        // Release: pairs with the acquire in `interrupt`, on the same thread.
        self.workers[number]
            .is_placed
            .store(true, Ordering::Release);
    }
}

impl<R: RawMutex + 'static> Round for SameThreadRound<R> {
    fn step(&self, lane: &mut Lane) -> Checked {
        let worker = &self.workers[lane.number / LANES_PER_WORKER];
        self.place(lane, lane.totals[STEPS]);
        lane.totals[STEPS] += 1;
        for _ in 0..BATCH {
            // If the lock is held, a handler has kept it, or another one has just taken it over.
            while !worker.lock.enter(lane, ENTERED, false)? {}
        }
        Ok(())
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        let worker = &self.workers[lane.number / LANES_PER_WORKER];
        if worker.is_placed.load(Ordering::Acquire) {
            lane.counted += u64::from(worker.lock.enter(lane, ENTERED, true)?);
        }
        Ok(())
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        for (worker, lanes) in self.workers.iter().zip(lanes.chunks(LANES_PER_WORKER)) {
            worker.lock.check_final(lanes, ENTERED)?;
        }
        Ok(())
    }
}
