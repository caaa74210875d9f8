//! The target `counter`: also a gauge, and several counters of one area. At any time, the sum is at
//! least what one lane knows that it added, and at most what all lanes have announced.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use atomseq::percpu::{Count, Counter, Counters, Gauge};
use crossbeam_utils::CachePadded;

use crate::engine::invariant::{Checked, Violation, equal};
use crate::engine::lane::{Activity, Lane};
use crate::engine::{Interruptions, Round, STEPS, Sabotage, Setting, Target};

/// The target `counter`.
pub const TARGET: Target = Target {
    name: "counter",
    group: "percpu",
    about: "sums never fall and are exact at the end; each addition is taken once",
    round: |setting| Arc::new(CounterRound::new(setting)),
    steps: STEPS,
    interruptions: Interruptions::Sent,
    counts: "",
};

// Indices of the lanes' sums.
const KEPT: usize = 0;
const TO_TAKE: usize = 1;
const TAKEN: usize = 2;
const LAST_SUM: usize = 3;
const GAUGED: usize = 4;
const COUNTED: usize = 5;

/// The number of counters in one area that are added to.
const COUNTS: usize = 3;

/// Each round has new ones, in the words of the rounds before.
static COUNTERS: Counters = Counters::new();

/// A counter whose sum is never taken, and one whose sum is; a gauge; counters of one area.
pub struct CounterRound {
    kept: Counter,
    taken: Counter,
    gauge: Gauge,
    counts: [Count<'static>; COUNTS],
    /// What each lane will have added to the first one when its current addition is complete.
    announced: Vec<CachePadded<AtomicU64>>,
}

impl CounterRound {
    /// Returns all, at zero.
    pub fn new(setting: &Setting) -> CounterRound {
        CounterRound {
            kept: Counter::new(),
            taken: Counter::new(),
            gauge: Gauge::new(),
            counts: [(); COUNTS].map(|()| COUNTERS.create()),
            announced: (0..setting.lanes).map(|_| CachePadded::default()).collect(),
        }
    }

    /// Checks that the sum of the first counter is at least what this lane added, and at most what
    /// all lanes have announced.
    pub fn check_sum(&self, lane: &mut Lane) -> Checked {
        let sum = self.kept.sum();
        // Acquire: pairs with the release fence in `add`, so that all that is in the sum was
        // announced before.
        fence(Ordering::Acquire);
        let announced = self
            .announced
            .iter()
            .map(|announced| announced.load(Ordering::Relaxed));
        let announced: u64 = announced.sum();
        let least = lane.totals[KEPT].max(lane.totals[LAST_SUM]);
        if sum < least {
            let violation = Violation::new("a sum is less than what this lane has added");
            return Err(violation.with("sum", sum).with("at least", least));
        }
        if sum > announced {
            let violation = Violation::new("a sum is more than what was ever added");
            return Err(violation.with("sum", sum).with("at most", announced));
        }
        lane.totals[LAST_SUM] = sum;
        Ok(())
    }

    fn add(&self, lane: &mut Lane) {
        lane.begin(Activity::Add);
        let amount = lane.rng.u64(1..1000);
        match lane.rng.u32(..8) {
            0..4 => {
                lane.totals[TO_TAKE] += amount;
                self.taken.add(amount);
                return;
            }
            4 => {
                let amount = amount as i64 - 500;
                lane.totals[GAUGED] = lane.totals[GAUGED].wrapping_add_signed(amount);
                self.gauge.add(amount);
                return;
            }
            5 => {
                let index = lane.rng.usize(..COUNTS);
                lane.totals[COUNTED + index] += amount;
                self.counts[index].add(amount);
                return;
            }
            _ => {}
        }
        lane.totals[KEPT] += amount;
        self.announced[lane.number].store(lane.totals[KEPT], Ordering::Relaxed);
        // Release: pairs with the acquire fence in `check_sum`.
        fence(Ordering::Release);
        if lane.inject(Sabotage::Lose) {
            return;
        }
        self.kept.add(amount);
        if lane.inject(Sabotage::Duplicate) {
            self.kept.add(amount);
        }
    }
}

/// Adds to a counter that no other lane has.
fn count_alone(lane: &mut Lane) -> Checked {
    lane.begin(Activity::Add);
    let own = COUNTERS.create();
    equal("a new counter is not at zero", own.sum(), 0)?;
    let amount = lane.rng.u64(1..1000);
    own.add(amount);
    equal("another lane has added to a counter", own.take(), amount)
}

impl Round for CounterRound {
    fn step(&self, lane: &mut Lane) -> Checked {
        match lane.rng.u32(..100) {
            4 => count_alone(lane)?,
            0 => {
                lane.begin(Activity::Drain);
                lane.totals[TAKEN] += self.taken.take();
            }
            1..4 => {
                lane.begin(Activity::Sum);
                self.check_sum(lane)?;
            }
            _ => self.add(lane),
        }
        Ok(())
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        self.add(lane);
        Ok(())
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        let total = |index: usize| lanes.iter().map(|lane| lane.totals[index]).sum::<u64>();
        equal(
            "the sum is not what was added",
            self.kept.sum(),
            total(KEPT),
        )?;
        let gauged = self.gauge.value() as u64;
        let expected = lanes.iter().map(|lane| lane.totals[GAUGED]);
        let expected = expected.fold(0, u64::wrapping_add);
        equal("a gauge is not at what was added", gauged, expected)?;
        for (index, count) in self.counts.iter().enumerate() {
            let sum = count.sum();
            equal("a counter of an area is wrong", sum, total(COUNTED + index))?;
        }
        let by_cpu: u64 = self.kept.per_cpu().map(|(_, value)| value).sum();
        if by_cpu > self.kept.sum() {
            let violation = Violation::new("the CPUs' parts are more than the sum");
            return Err(violation.with("parts", by_cpu).with("sum", self.kept.sum()));
        }
        let taken = total(TAKEN) + self.taken.take();
        equal(
            "what was taken is not what was added",
            taken,
            total(TO_TAKE),
        )?;
        equal(
            "a counter whose sum was taken is not at zero",
            self.taken.sum(),
            0,
        )
    }
}
