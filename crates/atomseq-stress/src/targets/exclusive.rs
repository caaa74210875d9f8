//! Locks of scope `Machine`, which all lanes share.

use std::time::{Duration, Instant};

use lock_api::{RawMutex, RawMutexTimed};

use super::section::Section;
use super::waiting::{any_patience, check_not_early};
use crate::engine::Round;
use crate::engine::invariant::{Checked, Violation};
use crate::engine::lane::{Activity, Lane};
use crate::system::{self, Ending};

/// A lock under test.
pub trait Lock: Send + Sync {
    /// Acquires the lock, enters its section and releases it; or fails to acquire it.
    fn enter(&self, lane: &mut Lane) -> Checked;

    /// Does the same in a handler, which must not wait: the thread that it interrupted may be the
    /// holder.
    fn enter_from_handler(&self, lane: &mut Lane) -> Checked;

    /// Forks while the lock is held; the child must be able to release its copy and acquire it
    /// again.
    fn fork(&self, lane: &mut Lane) -> Checked;

    /// Makes the final check, after all threads have stopped.
    fn check_final(&self, lanes: &[Lane]) -> Checked;
}

/// What a lock supports beside threads.
#[derive(Clone, Copy, Debug)]
pub struct Supports {
    /// Whether handlers may try it, wherever they interrupt a thread.
    pub handlers: bool,
    /// Whether a forked child can use it, whatever the other threads of its parent were doing with
    /// it.
    pub forks: bool,
}

impl Supports {
    /// Both.
    pub const BOTH: Supports = Supports {
        handlers: true,
        forks: true,
    };
}

/// A lock and its section.
pub struct Exclusive<R> {
    lock: lock_api::Mutex<R, Section>,
    doing: Activity,
    supports: Supports,
    /// The index of the lanes' sum of acquisitions.
    sum: usize,
}

impl<R> Exclusive<R>
where
    R: RawMutexTimed<Duration = Duration, Instant = Instant> + Send + Sync + 'static,
{
    /// Returns a lock that is not held.
    pub fn boxed(
        name: &'static str,
        doing: Activity,
        supports: Supports,
        sum: usize,
    ) -> Box<dyn Lock> {
        Box::new(Exclusive {
            lock: lock_api::Mutex::<R, _>::new(Section::new(name)),
            doing,
            supports,
            sum,
        })
    }

    fn enter_with_timeout(&self, lane: &mut Lane) -> Checked {
        lane.begin(self.doing);
        let (patience, start) = (any_patience(lane), Instant::now());
        match self.lock.try_lock_for(patience) {
            Some(section) => section.enter(lane, self.sum),
            None => check_not_early(patience, start.elapsed()),
        }
    }

    fn try_to_enter(&self, lane: &mut Lane) -> Checked {
        lane.begin(self.doing);
        match self.lock.try_lock() {
            Some(section) => section.enter(lane, self.sum),
            None => Ok(()),
        }
    }
}

impl<R> Lock for Exclusive<R>
where
    R: RawMutexTimed<Duration = Duration, Instant = Instant> + Send + Sync + 'static,
{
    fn enter(&self, lane: &mut Lane) -> Checked {
        match lane.rng.u32(..8) {
            0 => self.try_to_enter(lane),
            1 => self.enter_with_timeout(lane),
            _ => {
                lane.begin(self.doing);
                self.lock.lock().enter(lane, self.sum)
            }
        }
    }

    fn enter_from_handler(&self, lane: &mut Lane) -> Checked {
        match self.supports.handlers {
            true => self.try_to_enter(lane),
            false => Ok(()),
        }
    }

    fn fork(&self, lane: &mut Lane) -> Checked {
        if !self.supports.forks {
            return self.enter(lane);
        }
        lane.begin(self.doing);
        let section = self.lock.lock();
        section.enter(lane, self.sum)?;
        lane.begin(Activity::Fork);
        let ending = system::fork(|| {
            // SAFETY: the child is a copy of this thread, which holds the lock, and does not use
            // the guard any more.
            unsafe { self.lock.force_unlock() };
            lane.begin(Activity::Child);
            let again = self.lock.lock();
            again.enter(lane, self.sum)
        });
        drop(section);
        match ending {
            Ok(Ending::Checked(checked)) => {
                lane.counted += 1;
                checked
            }
            Ok(Ending::Died) => Err(Violation::new("a forked child died while it used a lock")),
            Ok(Ending::Hung) => Err(Violation::new(
                "a child forked by the holder of a lock waits for it indefinitely",
            )),
            // The system refused memory or the process: the summary says so.
            Err(_) => Ok(()),
        }
    }

    fn check_final(&self, lanes: &[Lane]) -> Checked {
        match self.lock.try_lock() {
            Some(section) => section.check_final(lanes, self.sum),
            None => Err(Violation::new(
                "a lock is held after all lanes have released it",
            )),
        }
    }
}

/// A round on one lock, which all workers acquire. The final check does not acquire it, so any lock
/// will do.
pub struct LockRound<R>(lock_api::Mutex<R, Section>);

impl<R: RawMutex> LockRound<R> {
    /// Returns a lock that is not held.
    pub fn new() -> LockRound<R> {
        LockRound(lock_api::Mutex::new(Section::new("inside the lock")))
    }
}

impl<R: RawMutex> Default for LockRound<R> {
    fn default() -> LockRound<R> {
        LockRound::new()
    }
}

/// The index of the lanes' sum of acquisitions.
const ENTERED: usize = 0;

impl<R: RawMutex + Send + Sync> Round for LockRound<R> {
    fn step(&self, lane: &mut Lane) -> Checked {
        lane.begin(Activity::Mutex);
        self.0.lock().enter(lane, ENTERED)
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        self.0.get_mut().check_final(lanes, ENTERED)
    }
}

/// A round on one lock, which workers acquire, try to acquire and acquire with a timeout, and which
/// handlers try to acquire.
pub struct TimedLockRound(Box<dyn Lock>);

impl TimedLockRound {
    /// Returns a lock that is not held.
    pub fn new<R>() -> TimedLockRound
    where
        R: RawMutexTimed<Duration = Duration, Instant = Instant> + Send + Sync + 'static,
    {
        let (name, activity) = ("inside the lock", Activity::Mutex);
        TimedLockRound(Exclusive::<R>::boxed(
            name,
            activity,
            Supports::BOTH,
            ENTERED,
        ))
    }
}

impl Round for TimedLockRound {
    fn step(&self, lane: &mut Lane) -> Checked {
        self.0.enter(lane)
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        self.0.enter_from_handler(lane)
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        self.0.check_final(lanes)
    }
}
