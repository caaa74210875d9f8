//! Whether signals are dealt with here as they should be: the experiment's ways, for once and only to see.

use super::run::Run;
use super::ways::{Arrival, WAYS};
use crate::bench::signals;

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Trial {
    /// An interrupted sequence starts again.
    Restart,
    /// An interrupted sequence runs to its end first.
    Rollforward,
    /// A signal waits for the end of a mask.
    Mask,
}

/// Tries everything; what came out well. What goes wrong in a handler may end the process.
pub fn all() -> Vec<Trial> {
    signals::manage();
    let good = WAYS.iter().filter_map(|way| {
        let trial = match way.arrival {
            Arrival::Plain => return None,
            Arrival::Restarted => Trial::Restart,
            Arrival::Rolled => Trial::Rollforward,
            Arrival::Deferred => Trial::Mask,
        };
        let run = Run::new(way);
        run.interrupt();
        run.check().is_ok().then_some(trial)
    });
    good.collect()
}
