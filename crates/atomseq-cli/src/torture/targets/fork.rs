//! Fork: children forked in the middle of everything find every structure whole and every gate
//! open.

use std::sync::Arc;

use atomseq::status::Reason;

use crate::torture::harness::lane::{Doing, Lane};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::harness::{Interruptions, Round, Setting, Target};
use crate::torture::subjects::bundle::Bundle;
use crate::torture::subjects::conserving::Mood;
use crate::torture::system::{self, Ending};

/// The target.
pub const TARGET: Target = Target {
    name: "fork",
    about: "forks in the middle of everything; each child checks its copy of all structures and ends",
    round: |setting| Arc::new(Forking::new(setting)),
    steps: 1_024,
    interruptions: Interruptions::Sent,
    counts: "forks",
};

struct Forking {
    bundle: Bundle,
    /// Portable builds do not keep forks away from closed gates; their children only use what needs
    /// none.
    gates_are_open: bool,
}

impl Forking {
    fn new(setting: &mut Setting) -> Forking {
        Forking {
            bundle: Bundle::new(setting, Mood::SINGLE),
            gates_are_open: atomseq::status().reason() != Some(Reason::Portable),
        }
    }

    fn fork(&self, lane: &mut Lane) -> Checked {
        lane.begin(Doing::Fork);
        let ending = system::fork(|| self.bundle.check_copy(lane, self.gates_are_open));
        match ending {
            Ok(Ending::Checked(checked)) => {
                lane.counted += 1;
                checked
            }
            Ok(Ending::Died) => Err(Broken::new("a forked child died")),
            Ok(Ending::Hung) => Err(Broken::new(
                "a forked child did not end: it met a gate closed for good",
            )),
            // No memory or no process to be had: that is the machine's affair, and the summary
            // tells it.
            Err(_) => Ok(()),
        }
    }
}

impl Round for Forking {
    fn step(&self, lane: &mut Lane) -> Checked {
        // One thread forks often, the others now and then: forks meet forks.
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
