//! The target `fork`: a child that is forked while other threads operate finds each structure
//! intact and each gate open.

use std::sync::Arc;

use atomseq::status::Reason;

use super::bundle::Bundle;
use super::containers::OperationMix;
use crate::engine::invariant::{Checked, Violation};
use crate::engine::lane::{Activity, Lane};
use crate::engine::{Interruptions, Round, Setting, Target};
use crate::system::{self, Ending};

/// The target `fork`.
pub const TARGET: Target = Target {
    name: "fork",
    group: "percpu",
    about: "forks while threads operate; each child checks its copy of all structures",
    round: |setting| Arc::new(ForkRound::new(setting)),
    steps: 1_024,
    interruptions: Interruptions::Sent,
    counts: "forks",
};

struct ForkRound {
    bundle: Bundle,
    /// False in portable builds: forks do not wait for closed gates there, so children only use
    /// structures without gates.
    gates_are_open: bool,
}

impl ForkRound {
    fn new(setting: &mut Setting) -> ForkRound {
        ForkRound {
            bundle: Bundle::new(setting, OperationMix::SINGLE),
            gates_are_open: atomseq::status().reason() != Some(Reason::Portable),
        }
    }

    fn fork(&self, lane: &mut Lane) -> Checked {
        lane.begin(Activity::Fork);
        let ending = system::fork(|| self.bundle.check_copy(lane, self.gates_are_open));
        match ending {
            Ok(Ending::Checked(checked)) => {
                lane.counted += 1;
                checked
            }
            Ok(Ending::Died) => Err(Violation::new("a forked child died")),
            Ok(Ending::Hung) => Err(Violation::new(
                "a forked child did not exit: it waits for a gate that no thread opens",
            )),
            // The system refused memory or the process: the summary says so.
            Err(_) => Ok(()),
        }
    }
}

impl Round for ForkRound {
    fn step(&self, lane: &mut Lane) -> Checked {
        // One thread forks often, the others rarely, so that forks are concurrent.
        let chances = if lane.number == 0 { 50 } else { 800 };
        if lane.one_in(chances) {
            return self.fork(lane);
        }
        self.bundle.step(lane)
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        self.bundle.interrupt(lane)
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        self.bundle.finish(lanes)
    }
}
