//! Locks that all lanes share: of scope `Machine`.

use std::time::{Duration, Instant};

use lock_api::RawMutexTimed;

use crate::torture::harness::lane::{Doing, Lane};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::subjects::section::Section;
use crate::torture::subjects::waiting::{any_patience, not_early};
use crate::torture::system::{self, Ending};

/// A lock under torture.
pub trait Lock: Send + Sync {
    /// Holds it for a moment, or tries to.
    fn enter(&self, lane: &mut Lane) -> Checked;

    /// From a handler, which must not wait: whom it interrupted may hold the lock.
    fn enter_from_handler(&self, lane: &mut Lane) -> Checked;

    /// Forks while it is held; the child can release its copy and take it again.
    fn fork(&self, lane: &mut Lane) -> Checked;

    /// All have stopped.
    fn settle(&self, lanes: &[Lane]) -> Checked;
}

/// What a lock can take beside threads.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    /// May handlers try it, wherever they interrupt?
    pub handlers: bool,
    /// Does a child of a fork find it usable, whatever the threads that stayed behind were doing
    /// with it?
    pub forks: bool,
}

impl Manners {
    /// Everything.
    pub const BOTH: Manners = Manners {
        handlers: true,
        forks: true,
    };
}

/// A lock, and what it guards.
pub struct Exclusive<R> {
    lock: lock_api::Mutex<R, Section>,
    doing: Doing,
    manners: Manners,
    /// Where lanes count how often they held it.
    sum: usize,
}

impl<R> Exclusive<R>
where
    R: RawMutexTimed<Duration = Duration, Instant = Instant> + Send + Sync + 'static,
{
    /// Nobody holds it.
    pub fn boxed(name: &'static str, doing: Doing, manners: Manners, sum: usize) -> Box<dyn Lock> {
        Box::new(Exclusive {
            lock: lock_api::Mutex::<R, _>::new(Section::new(name)),
            doing,
            manners,
            sum,
        })
    }

    fn enter_in_time(&self, lane: &mut Lane) -> Checked {
        lane.begin(self.doing);
        let (patience, start) = (any_patience(lane), Instant::now());
        match self.lock.try_lock_for(patience) {
            Some(section) => section.go_through(lane, self.sum),
            None => not_early(patience, start.elapsed()),
        }
    }

    fn try_to_enter(&self, lane: &mut Lane) -> Checked {
        lane.begin(self.doing);
        match self.lock.try_lock() {
            Some(section) => section.go_through(lane, self.sum),
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
            1 => self.enter_in_time(lane),
            _ => {
                lane.begin(self.doing);
                self.lock.lock().go_through(lane, self.sum)
            }
        }
    }

    fn enter_from_handler(&self, lane: &mut Lane) -> Checked {
        match self.manners.handlers {
            true => self.try_to_enter(lane),
            false => Ok(()),
        }
    }

    fn fork(&self, lane: &mut Lane) -> Checked {
        if !self.manners.forks {
            return self.enter(lane);
        }
        lane.begin(self.doing);
        let section = self.lock.lock();
        section.go_through(lane, self.sum)?;
        lane.begin(Doing::Fork);
        let ending = system::fork(|| {
            // SAFETY: the child is a copy of this thread, which holds the lock, and its guard is
            // not used any more.
            unsafe { self.lock.force_unlock() };
            lane.begin(Doing::Child);
            let again = self.lock.lock();
            again.go_through(lane, self.sum)
        });
        drop(section);
        match ending {
            Ok(Ending::Checked(checked)) => {
                lane.counted += 1;
                checked
            }
            Ok(Ending::Died) => Err(Broken::new("a forked child died of a lock")),
            Ok(Ending::Hung) => Err(Broken::new(
                "a child forked by the holder of a lock waits for it for ever",
            )),
            // No memory or no process to be had: that is the machine's affair, and the summary
            // tells it.
            Err(_) => Ok(()),
        }
    }

    fn settle(&self, lanes: &[Lane]) -> Checked {
        match self.lock.try_lock() {
            Some(section) => section.settle(lanes, self.sum),
            None => Err(Broken::new("a lock is held after all have released it")),
        }
    }
}
