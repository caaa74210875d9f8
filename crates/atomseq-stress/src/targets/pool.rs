//! The target `pool`: objects that lanes get and put back, over a source that sometimes runs out;
//! and boxes, over a source that allocates them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use atomseq::percpu::{Batch, Lease, Pool, Source};

use super::objects::{GIVEN_TWICE, Objects, POOL_SHELF};
use crate::engine::Sabotage;
use crate::engine::invariant::{Checked, Violation, report};
use crate::engine::lane::{Activity, Lane, MAX_HELD};
use crate::engine::{Interruptions, Round, STEPS, Setting, Target};

/// A source that provides the objects of an arena, without lock or allocation.
#[derive(Debug)]
pub struct Store(Arc<Objects>);

/// How many objects the source provides at once.
const REFILL: usize = 12;

impl Source<usize> for Store {
    fn refill(&self, batch: &mut Batch<usize>) {
        for index in 0..self.0.count() {
            if self.0.leave_source(index) && batch.push(index).is_err() {
                report(Violation::new("a batch had no room for a refill"));
            }
            if batch.len() == REFILL {
                break;
            }
        }
    }

    fn spill(&self, batch: &mut Batch<usize>) {
        for index in batch {
            if !self.0.return_to_source(index) {
                let violation =
                    Violation::new("a pool returned to its source what it had not got from it");
                report(violation.with("object", index as u64));
            }
        }
    }
}

/// A pool of objects, over a source that has all of them at first.
pub struct PoolRound {
    /// `None` only at the end of the round.
    pool: Option<Pool<usize, Store>>,
    objects: Arc<Objects>,
}

impl PoolRound {
    /// Returns a pool of up to `capacity` objects a CPU, over so many objects.
    pub fn new(capacity: usize, count: usize) -> PoolRound {
        let objects = Arc::new(Objects::new(count, POOL_SHELF));
        PoolRound {
            pool: Some(Pool::with_capacity_per_cpu(
                capacity,
                Store(objects.clone()),
            )),
            objects,
        }
    }

    /// Returns the objects.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Returns the pool.
    pub fn pool(&self) -> &Pool<usize, Store> {
        self.pool
            .as_ref()
            .expect("the pool lives until the round is finished")
    }

    /// Gets an object, or puts one back.
    pub fn interrupt(&self, lane: &mut Lane) -> Checked {
        let pool = self.pool();
        if lane.held[POOL_SHELF].len() < MAX_HELD && lane.rng.bool() {
            lane.begin(Activity::Get);
            let object = match lane.one_in(8) {
                true => pool.lease().map(Lease::into_inner),
                false => pool.get(),
            };
            return object.map_or(Ok(()), |index| self.objects.take(lane, number(index)));
        }
        lane.begin(Activity::Put);
        if let Some(index) = self.objects.give_back(lane)? {
            if !lane.inject(Sabotage::Lose) {
                pool.put(index as usize);
            }
        }
        Ok(())
    }
}

/// Returns a pool's object as a number; one that does not fit becomes a number that no object has.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

impl Round for PoolRound {
    fn step(&self, lane: &mut Lane) -> Checked {
        if lane.held[POOL_SHELF].len() == MAX_HELD || !lane.one_in(40) {
            return self.interrupt(lane);
        }
        lane.begin(Activity::Steal);
        let object = match lane.rng.bool() {
            true => self.pool().steal(),
            false => self.pool().steal_from(lane.rng.usize(..self.pool().cpus())),
        };
        let Some(index) = object else { return Ok(()) };
        lane.closings += 1;
        self.objects.take(lane, number(index))
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        self.interrupt(lane)
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        // A pool that is dropped returns all that it has to its source.
        drop(self.pool.take());
        let free: Vec<u32> = self.objects.in_source().collect();
        self.objects.check_final(lanes, &free)
    }
}

/// The target `pool`.
pub const TARGET: Target = Target {
    name: "pool",
    group: "percpu",
    about: "no object is lost, given to two threads, or changed while it is held",
    round,
    steps: STEPS,
    interruptions: Interruptions::Sent,
    counts: "",
};

fn round(setting: &mut Setting) -> Arc<dyn Round> {
    let capacity = 1 << setting.rng.u32(0..=6);
    if setting.rng.u32(..4) == 0 {
        return Arc::new(OwnedObjects::new(setting));
    }
    // Sometimes fewer objects than lanes can hold.
    let objects = setting.rng.usize(1..setting.lanes * MAX_HELD * 2);
    Arc::new(PoolRound::new(capacity, objects))
}

/// A pool of boxes, which its source allocates without limit.
struct OwnedObjects {
    /// `None` only at the end of the round.
    pool: Option<Pool<Box<OwnedObject>, Allocator>>,
    living: Arc<AtomicUsize>,
}

/// A box in a pool, which counts itself.
struct OwnedObject {
    in_use: AtomicBool,
    living: Arc<AtomicUsize>,
}

/// A source that allocates one box at a time, and frees what the pool spills.
struct Allocator(Arc<AtomicUsize>);

impl Source<Box<OwnedObject>> for Allocator {
    fn refill(&self, batch: &mut Batch<Box<OwnedObject>>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        let (in_use, living) = (AtomicBool::new(false), self.0.clone());
        let made = Box::new(OwnedObject { in_use, living });
        if batch.push(made).is_err() {
            report(Violation::new("a batch had no room for a refill"));
        }
    }

    fn spill(&self, batch: &mut Batch<Box<OwnedObject>>) {
        batch.for_each(drop);
    }
}

impl Drop for OwnedObject {
    fn drop(&mut self) {
        self.living.fetch_sub(1, Ordering::Relaxed);
    }
}

impl OwnedObjects {
    fn new(setting: &mut Setting) -> OwnedObjects {
        let living = Arc::new(AtomicUsize::new(0));
        let capacity = setting.rng.usize(1..32);
        let source = Allocator(living.clone());
        OwnedObjects {
            pool: Some(Pool::with_capacity_per_cpu(capacity, source)),
            living,
        }
    }
}

impl Round for OwnedObjects {
    fn step(&self, lane: &mut Lane) -> Checked {
        let Some(pool) = &self.pool else {
            return Err(Violation::new("a pool was used after its end"));
        };
        if lane.one_in(40) {
            lane.begin(Activity::Steal);
            drop(pool.steal());
            return Ok(());
        }
        lane.begin(Activity::Get);
        let Some(object) = pool.get() else {
            return Err(Violation::new(
                "a pool whose source never runs out was empty",
            ));
        };
        let mut is_shared = object.in_use.swap(true, Ordering::Relaxed);
        (0..lane.rng.u32(..20)).for_each(|_| std::hint::spin_loop());
        is_shared |= !object.in_use.swap(false, Ordering::Relaxed);
        if is_shared || lane.inject(Sabotage::Duplicate) {
            return Err(Violation::new(GIVEN_TWICE));
        }
        lane.begin(Activity::Put);
        match lane.inject(Sabotage::Lose) {
            true => std::mem::forget(object),
            false => pool.put(object),
        }
        Ok(())
    }

    fn finish(&mut self, _lanes: &mut [Lane]) -> Checked {
        drop(self.pool.take());
        match self.living.load(Ordering::Relaxed) {
            0 => Ok(()),
            left => Err(Violation::new("objects were lost").with("lost", left as u64)),
        }
    }
}
