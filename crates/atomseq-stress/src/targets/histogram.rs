//! The target `histogram`: each value is counted once, in its bucket and in the sum, and taken
//! once.

use std::sync::Arc;

use atomseq::percpu::{Histogram, Snapshot};

use crate::engine::invariant::{Checked, Violation, equal};
use crate::engine::lane::{Activity, Lane};
use crate::engine::{Interruptions, Round, STEPS, Sabotage, Setting, Target};

/// The target `histogram`.
pub const TARGET: Target = Target {
    name: "histogram",
    group: "percpu",
    about: "buckets and sum are exact at the end; snapshots never fall; each value is taken once",
    round: |setting| Arc::new(HistogramRound::new(setting)),
    steps: STEPS,
    interruptions: Interruptions::Sent,
    counts: "",
};

/// The max number of buckets: one a power of two.
const BUCKETS: usize = 65;

// Indices of the lanes' sums; the counter's come before.
const RECORDED: usize = 8;
const TAKEN: usize = RECORDED + BUCKETS;
const LAST_TOTAL: usize = TAKEN + BUCKETS;
const SUM_RECORDED: usize = LAST_TOTAL + 1;
const SUM_TAKEN: usize = SUM_RECORDED + 1;

/// A histogram, whose counts are taken or not.
pub struct HistogramRound {
    histogram: Histogram,
    /// `None`: powers of two.
    bounds: Option<Vec<u64>>,
    is_taken: bool,
}

impl HistogramRound {
    /// Returns one of any scale.
    pub fn new(setting: &mut Setting) -> HistogramRound {
        let rng = &mut setting.rng;
        let is_taken = rng.bool();
        if rng.u32(..3) == 0 {
            let (bits, max) = (rng.u32(..3), rng.u64(1..100_000));
            return HistogramRound {
                histogram: Histogram::log_linear(bits, max).with_sum(),
                bounds: Some(log_linear(bits, max)),
                is_taken,
            };
        }
        let bounds = rng.bool().then(|| {
            let mut bounds: Vec<u64> = (0..rng.usize(1..BUCKETS))
                .map(|_| rng.u64(..100_000))
                .collect();
            bounds.sort_unstable();
            bounds.dedup();
            bounds
        });
        HistogramRound {
            histogram: bounds
                .as_ref()
                .map_or_else(Histogram::powers_of_two, |bounds| {
                    Histogram::try_with_bounds(bounds).expect("memory")
                })
                .with_sum(),
            bounds,
            is_taken,
        }
    }

    /// Returns the bucket of a value, computed differently than the histogram does.
    fn bucket(&self, value: u64) -> usize {
        match &self.bounds {
            Some(bounds) => bounds.iter().take_while(|bound| value > **bound).count(),
            None => (0..64).take_while(|bit| value >> bit != 0).count(),
        }
    }

    fn record(&self, lane: &mut Lane) {
        lane.begin(Activity::Add);
        let value = match self.bounds {
            Some(_) => lane.rng.u64(..110_000),
            None => lane.rng.u64(..) >> lane.rng.u32(..64),
        };
        lane.totals[RECORDED + self.bucket(value)] += 1;
        lane.totals[SUM_RECORDED] = lane.totals[SUM_RECORDED].wrapping_add(value);
        if lane.inject(Sabotage::Lose) {
            return;
        }
        self.histogram.record(value);
        if lane.inject(Sabotage::Duplicate) {
            self.histogram.record(value);
        }
    }

    fn look(&self, lane: &mut Lane) -> Checked {
        if self.is_taken {
            lane.begin(Activity::Drain);
            let taken = self.histogram.take();
            add(&mut lane.totals[TAKEN..], &taken);
            let sum = taken.sum().unwrap_or(0);
            lane.totals[SUM_TAKEN] = lane.totals[SUM_TAKEN].wrapping_add(sum);
            return Ok(());
        }
        lane.begin(Activity::Sum);
        let snapshot = self.histogram.snapshot();
        for (count, own) in snapshot.counts().iter().zip(&lane.totals[RECORDED..TAKEN]) {
            if count < own {
                let violation =
                    Violation::new("a bucket has fewer values than this lane recorded in it");
                return Err(violation.with("it has", *count).with("at least", *own));
            }
        }
        let total = snapshot.total();
        if total < lane.totals[LAST_TOTAL] {
            let violation = Violation::new("a later snapshot has fewer values than an earlier one");
            return Err(violation
                .with("later", total)
                .with("earlier", lane.totals[LAST_TOTAL]));
        }
        lane.totals[LAST_TOTAL] = total;
        Ok(())
    }
}

/// Returns the bounds of a log-linear scale, one bucket after the other.
fn log_linear(bits: u32, max: u64) -> Vec<u64> {
    let mut bounds = Vec::new();
    let (mut lower, mut width) = (0, 1);
    while lower <= max {
        // Twice as many buckets before the width doubles for the first time.
        if bounds.len() > 1 << bits && bounds.len().is_multiple_of(1 << bits) {
            width *= 2;
        }
        lower += width;
        bounds.push(lower - 1);
    }
    bounds
}

fn add(into: &mut [u64], snapshot: &Snapshot<'_>) {
    for (sum, count) in into.iter_mut().zip(snapshot.counts()) {
        *sum += count;
    }
}

impl Round for HistogramRound {
    fn step(&self, lane: &mut Lane) -> Checked {
        if lane.one_in(50) {
            return self.look(lane);
        }
        self.record(lane);
        Ok(())
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        self.record(lane);
        Ok(())
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        let mut counted = [0; BUCKETS];
        let snapshot = self.histogram.snapshot();
        add(&mut counted, &snapshot);
        for (bucket, counted) in counted.iter().enumerate() {
            let total = |start: usize| {
                lanes
                    .iter()
                    .map(|lane| lane.totals[start + bucket])
                    .sum::<u64>()
            };
            let (all, recorded) = (counted + total(TAKEN), total(RECORDED));
            if all != recorded {
                return Err(Violation::new(
                    "a bucket does not have the values that were recorded in it",
                )
                .with("bucket", bucket as u64)
                .with("it holds", all)
                .with("recorded", recorded));
            }
        }
        let sum = |index: usize| {
            let sums = lanes.iter().map(|lane| lane.totals[index]);
            sums.fold(0, u64::wrapping_add)
        };
        let own = snapshot.sum().unwrap_or(0);
        equal(
            "the sum is not that of what was recorded",
            own.wrapping_add(sum(SUM_TAKEN)),
            sum(SUM_RECORDED),
        )
    }
}
