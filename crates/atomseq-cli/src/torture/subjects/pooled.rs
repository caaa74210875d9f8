//! A round on a pool of objects that circulate, over a source that runs out now and then.

use std::sync::Arc;

use atomseq::percpu::{Batch, Lease, Pool, Source};

use super::objects::{Objects, POOL_SHELF};
use crate::torture::harness::Round;
use crate::torture::harness::lane::{Doing, Lane, MAX_HELD};
use crate::torture::harness::law::{Broken, Checked, report};
use crate::torture::harness::sabotage::Sabotage;

/// A source that hands out the objects of an arena, without lock or allocation.
#[derive(Debug)]
pub struct Store(Arc<Objects>);

/// How many objects the store hands out at once.
const REFILL: usize = 12;

impl Source<usize> for Store {
    fn refill(&self, batch: &mut Batch<usize>) {
        for index in 0..self.0.count() {
            if self.0.leaves_source(index) && batch.push(index).is_err() {
                report(Broken::new("a batch had no room for a refill"));
            }
            if batch.len() == REFILL {
                break;
            }
        }
    }

    fn spill(&self, batch: &mut Batch<usize>) {
        for index in batch {
            if !self.0.returns_to_source(index) {
                let law = Broken::new("a pool gave the source what it had not got");
                report(law.with("object", index as u64));
            }
        }
    }
}

/// A pool of objects over a store of them.
pub struct Pooled {
    /// `None` only at the very end.
    pool: Option<Pool<usize, Store>>,
    objects: Arc<Objects>,
}

impl Pooled {
    /// A pool of up to `capacity` a CPU, over so many objects.
    pub fn new(capacity: usize, count: usize) -> Pooled {
        let objects = Arc::new(Objects::new(count, POOL_SHELF));
        Pooled {
            pool: Some(Pool::with_capacity_per_cpu(
                capacity,
                Store(objects.clone()),
            )),
            objects,
        }
    }

    /// The objects.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The pool.
    pub fn pool(&self) -> &Pool<usize, Store> {
        self.pool
            .as_ref()
            .expect("the pool goes when the round is finished")
    }

    /// Gets an object or gives one back.
    pub fn interrupt(&self, lane: &mut Lane) -> Checked {
        let pool = self.pool();
        if lane.held[POOL_SHELF].len() < MAX_HELD && lane.rng.bool() {
            lane.begin(Doing::Get);
            let object = match lane.one_in(8) {
                true => pool.lease().map(Lease::into_inner),
                false => pool.get(),
            };
            return object.map_or(Ok(()), |index| self.objects.taken(lane, number(index)));
        }
        lane.begin(Doing::Put);
        if let Some(index) = self.objects.given_back(lane)? {
            if !lane.strikes(Sabotage::Lose) {
                pool.put(index as usize);
            }
        }
        Ok(())
    }
}

/// A pool's object as a number; no object has the number that stands for those that do not exist.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

impl Round for Pooled {
    fn step(&self, lane: &mut Lane) -> Checked {
        if lane.held[POOL_SHELF].len() == MAX_HELD || !lane.one_in(40) {
            return self.interrupt(lane);
        }
        lane.begin(Doing::Steal);
        let object = match lane.rng.bool() {
            true => self.pool().steal(),
            false => self.pool().steal_from(lane.rng.usize(..self.pool().cpus())),
        };
        let Some(index) = object else { return Ok(()) };
        lane.closings += 1;
        self.objects.taken(lane, number(index))
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        self.interrupt(lane)
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        // Dropped, a pool gives everything it has back to its source.
        drop(self.pool.take());
        let home: Vec<u32> = self.objects.in_source().collect();
        self.objects.settle(lanes, &home)
    }
}
