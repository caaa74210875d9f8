//! One per-CPU structure of each kind, with one ledger: for targets that test something else than
//! one structure. The target `handlers`.

use std::sync::Arc;

use atomseq::percpu::{Queue, Ring, Stack};

use super::containers::{ContainerRound, OperationMix};
use super::counter::CounterRound;
use super::element::Owned;
use super::histogram::HistogramRound;
use super::list::ListRound;
use super::pool::PoolRound;
use crate::engine::invariant::{Checked, Violation};
use crate::engine::lane::{Lane, MAX_HELD};
use crate::engine::ledger::Ledger;
use crate::engine::{Interruptions, Round, STEPS, Setting, Target};

/// One structure of each kind.
pub struct Bundle {
    counted: CounterRound,
    recorded: HistogramRound,
    stack: ContainerRound<Stack<u64>, u64>,
    queue: ContainerRound<Queue<u64>, u64>,
    ring: ContainerRound<Ring<u64>, u64>,
    /// Their elements own memory, so handlers do not use them.
    boxes: ContainerRound<Stack<Box<Owned>>, Box<Owned>>,
    arcs: ContainerRound<Queue<Arc<Owned>>, Arc<Owned>>,
    listed: ListRound,
    pooled: PoolRound,
    ledger: Arc<Ledger>,
}

impl Bundle {
    /// Returns a bundle whose containers are used by this mix of operations.
    pub fn new(setting: &mut Setting, mix: OperationMix) -> Bundle {
        let ledger = Arc::new(Ledger::new(setting.salt, setting.lanes, STEPS));
        let capacity = setting.rng.usize(1..200);
        let objects = setting.rng.usize(1..setting.lanes * MAX_HELD);
        Bundle {
            counted: CounterRound::new(setting),
            recorded: HistogramRound::new(setting),
            stack: ContainerRound::with(
                Stack::with_capacity_per_cpu(capacity),
                ledger.clone(),
                mix,
            ),
            queue: ContainerRound::with(Queue::new(), ledger.clone(), mix),
            ring: ContainerRound::with(Ring::with_capacity_per_cpu(capacity), ledger.clone(), mix),
            boxes: ContainerRound::with(
                Stack::with_capacity_per_cpu(capacity),
                ledger.clone(),
                mix,
            ),
            arcs: ContainerRound::with(Queue::new(), ledger.clone(), mix),
            listed: ListRound::new(objects),
            pooled: PoolRound::new(capacity, objects),
            ledger,
        }
    }

    /// Makes an operation on one of its containers.
    pub fn step_container(&self, lane: &mut Lane) -> Checked {
        match lane.rng.u32(..8) {
            0 => self.boxes.step(lane),
            1 => self.arcs.step(lane),
            2..4 => self.stack.step(lane),
            4..6 => self.queue.step(lane),
            _ => self.ring.step(lane),
        }
    }

    /// Makes the check of a forked child, in which no other lane runs. Each of them had at most one
    /// value or object outside the structures when the process was copied.
    pub fn check_copy(&self, lane: &mut Lane, gates_are_open: bool) -> Checked {
        self.counted.check_sum(lane)?;
        if !gates_are_open {
            return Ok(());
        }
        let lanes = self.ledger.lanes() as u64 - 1;
        self.stack.empty(lane)?;
        self.queue.empty(lane)?;
        self.ring.empty(lane)?;
        self.boxes.empty(lane)?;
        self.arcs.empty(lane)?;
        at_most(lanes, self.ledger.missing(), "a forked copy lacks values")?;
        let objects = self.listed.objects();
        let found = self.listed.count_nodes()?;
        let missing = (objects.free() as u64).saturating_sub(found);
        at_most(lanes, missing, "a forked copy lacks nodes")?;
        let objects = self.pooled.objects();
        let pooled = self.pooled.pool().drain().count() as u64;
        // What the source has is free, and in no pool.
        let cached = objects.free().saturating_sub(objects.in_source().count());
        at_most(
            lanes * 32,
            (cached as u64).saturating_sub(pooled),
            "a forked copy lacks objects",
        )
    }
}

fn at_most(max: u64, missing: u64, what: &'static str) -> Checked {
    if missing <= max {
        return Ok(());
    }
    Err(Violation::new(what)
        .with("missing", missing)
        .with("at most", max))
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
        self.boxes.empty(&mut lanes[0])?;
        self.arcs.empty(&mut lanes[0])?;
        self.ledger.check_final()?;
        self.listed.finish(lanes)?;
        self.pooled.finish(lanes)
    }
}

/// The target `handlers`: this bundle in the handlers of another library, which interrupt its
/// operations and each other.
pub const TARGET: Target = Target {
    name: "handlers",
    group: "percpu",
    about: "timers interrupt threads; their handlers use all per-CPU structures",
    round: |setting| {
        let mix = OperationMix::any(&mut setting.rng);
        Arc::new(Bundle::new(setting, mix))
    },
    steps: STEPS,
    interruptions: Interruptions::Timed,
    counts: "",
};
