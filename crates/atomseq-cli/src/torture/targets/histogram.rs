//! Histogram: every value is counted once, in its own bucket, and drained once.

use std::sync::Arc;

use atomseq::percpu::{Histogram, Snapshot};

use crate::torture::harness::lane::{Doing, Lane};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::harness::sabotage::Sabotage;
use crate::torture::harness::{Interruptions, Round, STEPS, Setting, Target};

/// The target.
pub const TARGET: Target = Target {
    name: "histogram",
    about: "values recorded, snapshots and drains; each bucket ends exact, and every value is drained once",
    round: |setting| Arc::new(Recorded::new(setting)),
    steps: STEPS,
    interruptions: Interruptions::Sent,
    counts: "",
};

/// The most buckets: all powers of two.
const BUCKETS: usize = 65;

// Where lanes keep their sums; the counter's come before.
const RECORDED: usize = 8;
const DRAINED: usize = RECORDED + BUCKETS;
const LAST_TOTAL: usize = DRAINED + BUCKETS;

/// A histogram, drained or not.
pub struct Recorded {
    histogram: Histogram,
    /// `None`: powers of two.
    bounds: Option<Vec<u64>>,
    is_drained: bool,
}

impl Recorded {
    /// Of either scale, sometimes drained.
    pub fn new(setting: &mut Setting) -> Recorded {
        let rng = &mut setting.rng;
        let bounds = rng.bool().then(|| {
            let mut bounds: Vec<u64> = (0..rng.usize(1..BUCKETS))
                .map(|_| rng.u64(..100_000))
                .collect();
            bounds.sort_unstable();
            bounds.dedup();
            bounds
        });
        Recorded {
            histogram: bounds
                .as_ref()
                .map_or_else(Histogram::powers_of_two, |b| Histogram::with_bounds(b)),
            bounds,
            is_drained: rng.bool(),
        }
    }

    /// The bucket of a value, found another way than the histogram does.
    fn bucket(&self, value: u64) -> usize {
        match &self.bounds {
            Some(bounds) => bounds.iter().take_while(|bound| value > **bound).count(),
            None => (0..64).take_while(|bit| value >> bit != 0).count(),
        }
    }

    fn record(&self, lane: &mut Lane) {
        lane.begin(Doing::Add);
        let value = match self.bounds {
            Some(_) => lane.rng.u64(..110_000),
            None => lane.rng.u64(..) >> lane.rng.u32(..64),
        };
        lane.totals[RECORDED + self.bucket(value)] += 1;
        if lane.strikes(Sabotage::Lose) {
            return;
        }
        self.histogram.record(value);
        if lane.strikes(Sabotage::Duplicate) {
            self.histogram.record(value);
        }
    }

    fn look(&self, lane: &mut Lane) -> Checked {
        if self.is_drained {
            lane.begin(Doing::Drain);
            add(&mut lane.totals[DRAINED..], &self.histogram.take());
            return Ok(());
        }
        lane.begin(Doing::Sum);
        let snapshot = self.histogram.snapshot();
        for (count, own) in snapshot
            .counts()
            .iter()
            .zip(&lane.totals[RECORDED..DRAINED])
        {
            if count < own {
                let law = Broken::new("a bucket has less than one thread recorded in it");
                return Err(law.with("it has", *count).with("at least", *own));
            }
        }
        let total = snapshot.total();
        if total < lane.totals[LAST_TOTAL] {
            let law = Broken::new("a later snapshot has fewer values than an earlier one");
            return Err(law
                .with("later", total)
                .with("earlier", lane.totals[LAST_TOTAL]));
        }
        lane.totals[LAST_TOTAL] = total;
        Ok(())
    }
}

fn add(into: &mut [u64], snapshot: &Snapshot<'_>) {
    for (sum, count) in into.iter_mut().zip(snapshot.counts()) {
        *sum += count;
    }
}

impl Round for Recorded {
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
        add(&mut counted, &self.histogram.snapshot());
        for (bucket, counted) in counted.iter().enumerate() {
            let total = |start: usize| {
                lanes
                    .iter()
                    .map(|lane| lane.totals[start + bucket])
                    .sum::<u64>()
            };
            let (all, recorded) = (counted + total(DRAINED), total(RECORDED));
            if all != recorded {
                return Err(
                    Broken::new("a bucket does not hold what was recorded in it")
                        .with("bucket", bucket as u64)
                        .with("it holds", all)
                        .with("recorded", recorded),
                );
            }
        }
        Ok(())
    }
}
