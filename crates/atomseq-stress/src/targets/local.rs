//! The target `local`: the structures of `atomseq::local`, which a thread shares with its own
//! signal handlers.

use std::sync::Arc;

use atomseq::local::{Counter, Map, Queue, Ring, Stack};

use crossbeam_utils::CachePadded;

use crate::engine::invariant::{Checked, Violation, equal};
use crate::engine::lane::{Activity, LANES_PER_WORKER, Lane};
use crate::engine::ledger::Ledger;
use crate::engine::{Interruptions, Round, STEPS, Setting, Target};

/// The target `local`.
pub const TARGET: Target = Target {
    name: "local",
    group: "local",
    about: "a storm of signals, whose handlers use the structures of their thread",
    round: |setting| Arc::new(LocalRound::new(setting)),
    steps: 8 * STEPS,
    interruptions: Interruptions::Storm,
    counts: "by handlers",
};

/// The structures of each worker.
struct LocalRound {
    workers: Box<[CachePadded<LocalStructures>]>,
    ledger: Ledger,
}

impl LocalRound {
    fn new(setting: &Setting) -> LocalRound {
        let workers = setting.lanes / LANES_PER_WORKER;
        LocalRound {
            workers: (0..workers).map(|_| CachePadded::default()).collect(),
            ledger: Ledger::new(setting.salt, setting.lanes, 4 * STEPS),
        }
    }
}

impl Round for LocalRound {
    fn step(&self, lane: &mut Lane) -> Checked {
        let local = &self.workers[lane.number / LANES_PER_WORKER];
        // SAFETY: a lane belongs to a worker or its handlers, and these structures to that worker.
        unsafe { local.operate(&self.ledger, lane) }
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        for _ in 0..lane.rng.u32(1..=3) {
            lane.counted += 1;
            self.step(lane)?;
        }
        Ok(())
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        let lanes = lanes.chunks(LANES_PER_WORKER);
        for (local, lanes) in self.workers.iter().zip(lanes) {
            local.check_final(&self.ledger, lanes)?;
        }
        self.ledger.check_final()
    }
}

/// How many keys are used, fewer than there is room for.
const KEYS: u64 = 40;

// Indices of the lanes' sums; those of the sequences lie below.
const COUNTED: usize = 10;
const TAKEN: usize = 11;
const MAPPED: usize = 12;
const REMOVED: usize = 13;

/// One of each, small enough to be full sometimes.
#[derive(Default)]
struct Structures {
    counter: Counter,
    stack: Stack<u64, 24>,
    queue: Queue<u64, 32>,
    /// Elements of three words, which agree only if they were copied in one operation.
    ring: Ring<[u64; 3], 16>,
    map: Map<u64, u64, 64>,
}

/// The structures of a worker.
#[derive(Default)]
pub struct LocalStructures(Structures);

// SAFETY: one thread uses the structures: from the start to the end of a round, the worker that
// calls `operate`, with its handlers; before and after that, the director.
unsafe impl Send for LocalStructures {}
// SAFETY: one thread at a time uses the structures.
unsafe impl Sync for LocalStructures {}

fn whole(value: u64) -> [u64; 3] {
    [value, value.rotate_left(17), !value]
}

impl LocalStructures {
    /// Makes one operation of the lane's choice.
    ///
    /// # Safety
    ///
    /// The caller is the worker to which these structures belong, or one of its signal handlers.
    pub unsafe fn operate(&self, ledger: &Ledger, lane: &mut Lane) -> Checked {
        let LocalStructures(local) = self;
        let kind = lane.rng.u32(..5);
        if kind < 3 && lane.rng.bool() {
            if let Some(value) = ledger.issue(lane) {
                lane.begin(Activity::Push);
                let pushed = match kind {
                    0 => local.stack.push(value),
                    1 => local.queue.push(value),
                    _ => local.ring.push(whole(value)).map_err(|element| element[0]),
                };
                return pushed.or_else(|back| ledger.out(back).map(drop));
            }
        }
        let amount = lane.rng.u64(1..1000);
        match kind {
            0 => out(ledger, lane, || local.stack.pop()),
            1 => out(ledger, lane, || local.queue.pop()),
            2 => out(ledger, lane, || local.ring.pop().map(checked)),
            3 if lane.one_in(16) => {
                lane.begin(Activity::Drain);
                lane.totals[TAKEN] += local.counter.take();
                Ok(())
            }
            3 => {
                lane.begin(Activity::Add);
                local.counter.add(amount);
                lane.totals[COUNTED] += amount;
                Ok(())
            }
            _ => local.count(lane, amount),
        }
    }

    /// Takes out what is left, and checks that each value was taken out once.
    pub fn check_final(&self, ledger: &Ledger, lanes: &[Lane]) -> Checked {
        let LocalStructures(local) = self;
        let mut left = local.stack.drain().chain(local.queue.drain());
        left.try_for_each(|value| ledger.out(value).map(drop))?;
        drop(left);
        let mut left = local.ring.drain().map(checked);
        left.try_for_each(|value| ledger.out(value).map(drop))?;
        drop(left);
        let total = |index: usize| lanes.iter().map(|lane| lane.totals[index]).sum::<u64>();
        let left = local.counter.take();
        equal(
            "a counter lost additions",
            total(TAKEN) + left,
            total(COUNTED),
        )?;
        let left: u64 = local.map.drain().map(|(_, amount)| amount).sum();
        equal("a map lost additions", total(REMOVED) + left, total(MAPPED))
    }
}

/// Returns the first word of a whole element, and a value that was never issued for a torn one.
fn checked(element: [u64; 3]) -> u64 {
    match element == whole(element[0]) {
        true => element[0],
        false => u64::MAX,
    }
}

fn out(ledger: &Ledger, lane: &mut Lane, pop: impl FnOnce() -> Option<u64>) -> Checked {
    lane.begin(Activity::Pop);
    pop().map_or(Ok(()), |value| ledger.out_by(lane, value).map(drop))
}

impl Structures {
    /// Adds to a key of the map, or removes it.
    fn count(&self, lane: &mut Lane, amount: u64) -> Checked {
        let key = match lane.rng.u64(..KEYS) {
            0 => u64::MAX,
            key => key - 1,
        };
        if lane.rng.bool() {
            lane.begin(Activity::Get);
            lane.totals[REMOVED] += self.map.remove(key).unwrap_or(0);
            return Ok(());
        }
        lane.begin(Activity::Put);
        lane.totals[MAPPED] += amount;
        let full = |_| Violation::new("a map with room for all keys was full").with("key", key);
        self.map.add(key, amount).map_err(full)
    }
}
