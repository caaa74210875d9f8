//! A lock with many readers at a time, which all lanes share.

use std::time::{Duration, Instant};

use lock_api::RawRwLockTimed;

use super::exclusive::Lock;
use super::section::Section;
use super::waiting::{any_patience, check_not_early};
use crate::engine::invariant::{Checked, Violation};
use crate::engine::lane::{Activity, Lane};

/// A lock and its section, which writers enter and readers look at.
pub struct Reading<R> {
    lock: lock_api::RwLock<R, Section>,
    /// The index of the lanes' sum of writes.
    sum: usize,
}

/// The max number of reads in a row: readers become biased after some hundreds without a writer.
const BURST: u32 = 4096;

impl<R> Reading<R>
where
    R: RawRwLockTimed<Duration = Duration, Instant = Instant> + Send + Sync + 'static,
{
    /// Returns a lock that is not held.
    pub fn boxed(name: &'static str, sum: usize) -> Box<dyn Lock> {
        Box::new(Reading {
            lock: lock_api::RwLock::<R, _>::new(Section::new(name)),
            sum,
        })
    }

    fn try_any(&self, lane: &mut Lane) -> Checked {
        if lane.rng.bool() {
            return match self.lock.try_write() {
                Some(section) => section.enter(lane, self.sum),
                None => Ok(()),
            };
        }
        match self.lock.try_read() {
            Some(section) => section.look(lane),
            None => Ok(()),
        }
    }

    fn any_with_timeout(&self, lane: &mut Lane) -> Checked {
        let (patience, start) = (any_patience(lane), Instant::now());
        if lane.rng.bool() {
            return match self.lock.try_write_for(patience) {
                Some(section) => section.enter(lane, self.sum),
                None => check_not_early(patience, start.elapsed()),
            };
        }
        match self.lock.try_read_for(patience) {
            Some(section) => section.look(lane),
            None => check_not_early(patience, start.elapsed()),
        }
    }
}

impl<R> Lock for Reading<R>
where
    R: RawRwLockTimed<Duration = Duration, Instant = Instant> + Send + Sync + 'static,
{
    fn enter(&self, lane: &mut Lane) -> Checked {
        lane.begin(Activity::Mutex);
        match lane.rng.u32(..16) {
            0 => self.try_any(lane),
            1 => self.any_with_timeout(lane),
            2..8 => self.lock.write().enter(lane, self.sum),
            8 => {
                for _ in 0..lane.rng.u32(1..BURST) {
                    self.lock.read().look(lane)?;
                }
                Ok(())
            }
            _ => self.lock.read().look(lane),
        }
    }

    fn enter_from_handler(&self, lane: &mut Lane) -> Checked {
        lane.begin(Activity::Mutex);
        self.try_any(lane)
    }

    /// Does not fork: the child would find the readers of threads that it does not have.
    fn fork(&self, lane: &mut Lane) -> Checked {
        self.enter(lane)
    }

    fn check_final(&self, lanes: &[Lane]) -> Checked {
        match self.lock.try_write() {
            Some(section) => section.check_final(lanes, self.sum),
            None => Err(Violation::new(
                "a lock is held after all lanes have released it",
            )),
        }
    }
}
