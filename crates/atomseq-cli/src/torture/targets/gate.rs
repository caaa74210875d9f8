//! Gate: storms of steals and drains; and sections of our own, none of which may write while its
//! gate is closed.

use std::sync::Arc;

use atomseq::percpu::Area;

use crate::torture::harness::lane::{Doing, Lane};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::harness::sabotage::Sabotage;
use crate::torture::harness::{Interruptions, Round, STEPS, Setting, Target};
use crate::torture::subjects::bundle::Bundle;
use crate::torture::subjects::conserving::Mood;
use crate::torture::targets::counter::equal;

/// The target.
pub const TARGET: Target = Target {
    name: "gate",
    about: "storms of steals and drains; while a gate is closed nothing is written behind it",
    round: |setting| Arc::new(Stormed::new(setting)),
    steps: STEPS / 2,
    interruptions: Interruptions::Sent,
    counts: "",
};

const COUNT: usize = Area::FIRST_WORD;
const DRAFT: usize = Area::FIRST_WORD + 8;

atomseq::sequence! {
    /// Writes the new count to a draft that nobody may read, then to the count.
    unsafe fn raise(slot: Slot, amount: Word) {
        let count = load(slot + COUNT) + amount;
        prepare(slot + DRAFT, count);
        commit(slot + COUNT, count);
    }

    /// Takes the count, which starts again at zero.
    unsafe fn take(slot: Slot) -> Word {
        let count = load(slot + COUNT);
        commit(slot + COUNT, 0);
        count
    }
}

struct Stormed {
    bundle: Bundle,
    area: Area,
}

// Where lanes keep their sums; the bundle's lie below.
const RAISED: usize = 250;
const TAKEN: usize = 251;

impl Stormed {
    fn new(setting: &mut Setting) -> Stormed {
        Stormed {
            bundle: Bundle::new(setting, Mood::STORM),
            area: Area::try_new(0).unwrap_or_else(|error| panic!("{error}")),
        }
    }

    fn raise(&self, lane: &mut Lane) {
        lane.begin(Doing::Add);
        let amount = lane.rng.usize(1..100);
        lane.totals[RAISED] += amount as u64;
        if lane.strikes(Sabotage::Lose) {
            return;
        }
        // SAFETY: both words lie in the slot, and only these sequences change them.
        if unsafe { raise::on_cpu(self.area.slots(), amount) }.is_err() {
            // SAFETY: the same, and the gate is held.
            self.area
                .on_slow_path(|held| unsafe { raise::gated(held, amount) });
        }
    }

    /// Closes a gate and looks whether anybody still writes behind it.
    fn close(&self, lane: &mut Lane) -> Checked {
        lane.begin(Doing::Close);
        let cpu = lane.rng.usize(..self.area.cpus());
        let patience = lane.rng.u32(..400);
        let held = self.area.close_gate(cpu);
        let look = || (self.area.peek(cpu, 0), self.area.peek(cpu, 1));
        let before = look();
        (0..patience).for_each(|_| std::hint::spin_loop());
        let after = look();
        // SAFETY: as in `raise`, and the gate is held.
        let taken = unsafe { take::gated(&held) };
        let last = self.area.peek(cpu, 0);
        drop(held);
        lane.closings += 1;
        lane.totals[TAKEN] += taken as u64;
        if before != after || taken != before.0 || last != 0 {
            let law = Broken::new("something was written behind a closed gate");
            let law = law
                .with("CPU", cpu as u64)
                .with("count before", before.0 as u64);
            return Err(law
                .with("count after", after.0 as u64)
                .with("count when taken", taken as u64));
        }
        Ok(())
    }
}

impl Round for Stormed {
    fn step(&self, lane: &mut Lane) -> Checked {
        match lane.rng.u32(..100) {
            0..50 => {
                self.raise(lane);
                Ok(())
            }
            50..70 => self.close(lane),
            _ => self.bundle.step_container(lane),
        }
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        match lane.rng.u32(..3) {
            0 => {
                self.raise(lane);
                Ok(())
            }
            1 => self.close(lane),
            _ => self.bundle.interrupt(lane),
        }
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        let total = |index: usize| lanes.iter().map(|lane| lane.totals[index]).sum::<u64>();
        let left: usize = (0..self.area.cpus())
            .map(|cpu| self.area.peek(cpu, 0))
            .sum();
        equal(
            "the sections' counts were not all kept",
            total(TAKEN) + left as u64,
            total(RAISED),
        )?;
        self.bundle.finish(lanes)
    }
}
