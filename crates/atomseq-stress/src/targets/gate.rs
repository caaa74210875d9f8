//! The target `gate`: many steals and drains; and sequences of its own, which must not write while
//! their gate is closed.

use std::sync::Arc;

use atomseq::percpu::Area;

use super::bundle::Bundle;
use super::containers::OperationMix;
use crate::engine::invariant::{Checked, Violation, equal};
use crate::engine::lane::{Activity, Lane};
use crate::engine::{Interruptions, Round, STEPS, Sabotage, Setting, Target};

/// The target `gate`.
pub const TARGET: Target = Target {
    name: "gate",
    group: "percpu",
    about: "many steals and drains; no per-CPU sequence writes while its gate is closed",
    round: |setting| Arc::new(GateRound::new(setting)),
    steps: STEPS / 2,
    interruptions: Interruptions::Sent,
    counts: "",
};

const COUNT: usize = Area::FIRST_WORD;
const DRAFT: usize = Area::FIRST_WORD + 8;

atomseq::sequence! {
    /// Writes the new count to a draft that no other code reads, then to the count.
    unsafe fn raise(slot: Slot, amount: Word) {
        let count = load(slot + COUNT) + amount;
        prepare(slot + DRAFT, count);
        commit(slot + COUNT, count);
    }

    /// Returns the count, and sets it to zero.
    unsafe fn take(slot: Slot) -> Word {
        let count = load(slot + COUNT);
        commit(slot + COUNT, 0);
        count
    }
}

struct GateRound {
    bundle: Bundle,
    area: Area,
}

// Indices of the lanes' sums; the bundle's lie below.
const RAISED: usize = 250;
const TAKEN: usize = 251;

impl GateRound {
    fn new(setting: &mut Setting) -> GateRound {
        GateRound {
            bundle: Bundle::new(setting, OperationMix::STORM),
            area: Area::try_new(0).unwrap_or_else(|error| panic!("{error}")),
        }
    }

    fn raise(&self, lane: &mut Lane) {
        lane.begin(Activity::Add);
        let amount = lane.rng.usize(1..100);
        lane.totals[RAISED] += amount as u64;
        if lane.inject(Sabotage::Lose) {
            return;
        }
        // SAFETY: both words lie in the slot, and only these sequences change them.
        if unsafe { raise::on_cpu(self.area.slots(), amount) }.is_err() {
            // SAFETY: both words lie in the slot, and the gate is held.
            self.area
                .on_slow_path(|held| unsafe { raise::gated(held, amount) });
        }
    }

    /// Closes a gate and checks that no sequence writes to its slot.
    fn close(&self, lane: &mut Lane) -> Checked {
        lane.begin(Activity::Close);
        let cpu = lane.rng.usize(..self.area.cpus());
        let spins = lane.rng.u32(..400);
        let held = self.area.close_gate(cpu);
        let look = || (self.area.peek(cpu, COUNT), self.area.peek(cpu, DRAFT));
        let before = look();
        (0..spins).for_each(|_| std::hint::spin_loop());
        let after = look();
        // SAFETY: as in `raise`, and the gate is held.
        let taken = unsafe { take::gated(&held) };
        let last = self.area.peek(cpu, COUNT);
        drop(held);
        lane.closings += 1;
        lane.totals[TAKEN] += taken as u64;
        if before != after || taken != before.0 || last != 0 {
            let violation = Violation::new("a sequence wrote while its gate was closed");
            let violation = violation
                .with("CPU", cpu as u64)
                .with("count before", before.0 as u64);
            return Err(violation
                .with("count after", after.0 as u64)
                .with("count when taken", taken as u64));
        }
        Ok(())
    }
}

impl Round for GateRound {
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
            .map(|cpu| self.area.peek(cpu, COUNT))
            .sum();
        equal(
            "the sequences lost additions",
            total(TAKEN) + left as u64,
            total(RAISED),
        )?;
        self.bundle.finish(lanes)
    }
}
