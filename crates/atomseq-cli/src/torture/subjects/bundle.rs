//! One structure of each kind, with one set of books: for targets that torture something other than
//! one structure.

use std::sync::Arc;

use atomseq::percpu::{Queue, Ring, Stack};

use super::conserving::{Conserving, Mood};
use super::listed::Listed;
use super::pooled::Pooled;
use crate::torture::harness::lane::{Lane, MAX_HELD};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::harness::ledger::Ledger;
use crate::torture::harness::{Round, STEPS, Setting};
use crate::torture::targets::counter::Counted;
use crate::torture::targets::histogram::Recorded;

/// One structure of each kind.
pub struct Bundle {
    counted: Counted,
    recorded: Recorded,
    stack: Conserving<Stack<u64>, u64>,
    queue: Conserving<Queue<u64>, u64>,
    ring: Conserving<Ring<u64>, u64>,
    listed: Listed,
    pooled: Pooled,
    ledger: Arc<Ledger>,
}

impl Bundle {
    /// Its containers treated in this mood.
    pub fn new(setting: &mut Setting, mood: Mood) -> Bundle {
        let ledger = Arc::new(Ledger::new(setting.salt, setting.lanes, STEPS));
        let capacity = setting.rng.usize(1..200);
        let objects = setting.rng.usize(1..setting.lanes * MAX_HELD);
        Bundle {
            counted: Counted::new(setting),
            recorded: Recorded::new(setting),
            stack: Conserving::with(Stack::with_capacity_per_cpu(capacity), ledger.clone(), mood),
            queue: Conserving::with(Queue::new(), ledger.clone(), mood),
            ring: Conserving::with(Ring::with_capacity_per_cpu(capacity), ledger.clone(), mood),
            listed: Listed::new(objects),
            pooled: Pooled::new(capacity, objects),
            ledger,
        }
    }

    /// An operation on one of its containers.
    pub fn step_container(&self, lane: &mut Lane) -> Checked {
        match lane.rng.u32(..3) {
            0 => self.stack.step(lane),
            1 => self.queue.step(lane),
            _ => self.ring.step(lane),
        }
    }

    /// What a forked child checks, while none of the other lanes is there any more: every one of
    /// them had at most one value or object on its way when it was copied.
    pub fn check_copy(&self, lane: &mut Lane, gates_are_open: bool) -> Checked {
        self.counted.check_sum(lane)?;
        if !gates_are_open {
            return Ok(());
        }
        let lanes = self.ledger.lanes() as u64 - 1;
        self.stack.empty(lane)?;
        self.queue.empty(lane)?;
        self.ring.empty(lane)?;
        at_most(lanes, self.ledger.missing(), "a forked copy lacks values")?;
        let objects = self.listed.objects();
        let found = self.listed.count_nodes()?;
        let missing = (objects.at_home() as u64).saturating_sub(found);
        at_most(lanes, missing, "a forked copy lacks nodes")?;
        let objects = self.pooled.objects();
        let pooled = self.pooled.pool().drain().count() as u64;
        // The source counts: what it has is at home, and in no pool.
        let cached = objects
            .at_home()
            .saturating_sub(objects.in_source().count());
        at_most(
            lanes * 32,
            (cached as u64).saturating_sub(pooled),
            "a forked copy lacks objects",
        )
    }
}

fn at_most(most: u64, missing: u64, law: &'static str) -> Checked {
    if missing <= most {
        return Ok(());
    }
    Err(Broken::new(law)
        .with("missing", missing)
        .with("on their way at most", most))
}

impl Round for Bundle {
    fn step(&self, lane: &mut Lane) -> Checked {
        match lane.rng.u32(..7) {
            0 => Round::step(&self.counted, lane),
            1 => Round::step(&self.recorded, lane),
            2 => Round::step(&self.listed, lane),
            3 => Round::step(&self.pooled, lane),
            _ => self.step_container(lane),
        }
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        match lane.rng.u32(..7) {
            0 => Round::interrupt(&self.counted, lane),
            1 => Round::interrupt(&self.recorded, lane),
            2 => self.listed.interrupt(lane),
            3 => self.pooled.interrupt(lane),
            4 => self.stack.interrupt(lane),
            5 => self.queue.interrupt(lane),
            _ => self.ring.interrupt(lane),
        }
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        self.counted.finish(lanes)?;
        self.recorded.finish(lanes)?;
        self.stack.empty(&mut lanes[0])?;
        self.queue.empty(&mut lanes[0])?;
        self.ring.empty(&mut lanes[0])?;
        self.ledger.settle()?;
        self.listed.finish(lanes)?;
        self.pooled.finish(lanes)
    }
}
