//! Counter: the sum is what was added, at any time between what one lane knows and what all have
//! announced.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use atomseq::percpu::Counter;
use crossbeam_utils::CachePadded;

use crate::torture::harness::lane::{Doing, Lane};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::harness::sabotage::Sabotage;
use crate::torture::harness::{Interruptions, Round, STEPS, Setting, Target};

/// The target.
pub const TARGET: Target = Target {
    name: "counter",
    about: "additions, sums and drains; sums never fall and end exact, and every addition is drained once",
    round: |setting| Arc::new(Counted::new(setting)),
    steps: STEPS,
    interruptions: Interruptions::Sent,
    counts: "",
};

// Where lanes keep their sums.
const KEPT: usize = 0;
const TO_DRAIN: usize = 1;
const DRAINED: usize = 2;
const LAST_SUM: usize = 3;

/// A counter that is never drained, and one that is.
pub struct Counted {
    kept: Counter,
    drained: Counter,
    /// What each lane will have added to the first once it is through with its addition.
    announced: Vec<CachePadded<AtomicU64>>,
}

impl Counted {
    /// Both at zero.
    pub fn new(setting: &Setting) -> Counted {
        Counted {
            kept: Counter::new(),
            drained: Counter::new(),
            announced: (0..setting.lanes).map(|_| CachePadded::default()).collect(),
        }
    }

    /// The sum of the first counter is at least what this lane added, and at most what all have
    /// announced.
    pub fn check_sum(&self, lane: &mut Lane) -> Checked {
        let sum = self.kept.sum();
        // Acquire: pairs with the release fence in `add`, so that what is in the sum has been
        // announced.
        fence(Ordering::Acquire);
        let announced = self
            .announced
            .iter()
            .map(|announced| announced.load(Ordering::Relaxed));
        let announced: u64 = announced.sum();
        let least = lane.totals[KEPT].max(lane.totals[LAST_SUM]);
        if sum < least {
            let law = Broken::new("a sum is less than what was certainly in it");
            return Err(law.with("sum", sum).with("at least", least));
        }
        if sum > announced {
            let law = Broken::new("a sum is more than what was ever added");
            return Err(law.with("sum", sum).with("at most", announced));
        }
        lane.totals[LAST_SUM] = sum;
        Ok(())
    }

    fn add(&self, lane: &mut Lane) {
        lane.begin(Doing::Add);
        let amount = lane.rng.u64(1..1000);
        if lane.rng.bool() {
            lane.totals[TO_DRAIN] += amount;
            self.drained.add(amount);
            return;
        }
        lane.totals[KEPT] += amount;
        self.announced[lane.number].store(lane.totals[KEPT], Ordering::Relaxed);
        // Release: pairs with the acquire fence in `check_sum`.
        fence(Ordering::Release);
        if lane.strikes(Sabotage::Lose) {
            return;
        }
        self.kept.add(amount);
        if lane.strikes(Sabotage::Duplicate) {
            self.kept.add(amount);
        }
    }
}

impl Round for Counted {
    fn step(&self, lane: &mut Lane) -> Checked {
        match lane.rng.u32(..100) {
            0 => {
                lane.begin(Doing::Drain);
                lane.totals[DRAINED] += self.drained.take();
            }
            1..4 => {
                lane.begin(Doing::Sum);
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
        let by_cpu: u64 = self.kept.per_cpu().map(|(_, value)| value).sum();
        if by_cpu > self.kept.sum() {
            let law = Broken::new("the CPUs' parts are more than the sum");
            return Err(law.with("parts", by_cpu).with("sum", self.kept.sum()));
        }
        let drained = total(DRAINED) + self.drained.take();
        equal(
            "what was drained is not what was added",
            drained,
            total(TO_DRAIN),
        )?;
        equal("a drained counter is not at zero", self.drained.sum(), 0)
    }
}

/// Two figures that must agree.
pub fn equal(law: &'static str, is: u64, should_be: u64) -> Checked {
    if is == should_be {
        return Ok(());
    }
    Err(Broken::new(law)
        .with("it is", is)
        .with("it should be", should_be))
}
