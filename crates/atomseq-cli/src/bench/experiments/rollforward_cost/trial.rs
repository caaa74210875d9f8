//! Whether signals are dealt with here as they should be: the experiment's ways, for once and only
//! to see.

use super::run::Run;
use super::ways::{Arrival, MANAGED_WAYS, WAYS};
use crate::bench::signals;
use crate::error::Refused;

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Trial {
    /// The control: a signal that interrupts nothing of atomseq's arrives, and its handler returns.
    /// Where it does not, nothing can be said of the others.
    Control,
    /// An interrupted sequence starts again.
    Restart,
    /// An interrupted sequence runs to its end first.
    Rollforward,
    /// A signal waits for the end of a mask.
    Mask,
}

/// How far a trial has come. Plain data, so that a child process can leave it to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has not begun.
    Ahead,
    /// It is under way: where the process has ended since, it ended in the middle.
    Begun,
    /// All was as it is to be.
    Good,
    /// It was not.
    Bad,
    /// The system refused what it takes.
    Refused(Refused),
}

/// How far each trial has come, by [`Trial`].
pub type Stages = [Stage; MANAGED_WAYS];

/// No trial has begun.
pub const AHEAD: Stages = [Stage::Ahead; MANAGED_WAYS];

/// Tries everything, the control first; `note` is called whenever a trial has come further. What
/// goes wrong in a handler may end the process.
pub fn all(note: &dyn Fn(Trial, Stage)) {
    if let Err(refused) = signals::manage() {
        return note(Trial::Control, Stage::Refused(refused));
    }
    for way in &WAYS[..MANAGED_WAYS] {
        let trial = match way.arrival {
            Arrival::Plain => Trial::Control,
            Arrival::Restarted => Trial::Restart,
            Arrival::Rolled => Trial::Rollforward,
            Arrival::Deferred => Trial::Mask,
        };
        note(trial, Stage::Begun);
        let interrupt = |run: &Run| run.interrupt().map(drop);
        let run = Run::new(way).and_then(|run| interrupt(&run).map(|()| run));
        let stage = match run {
            Ok(run) if run.check().is_ok() => Stage::Good,
            Ok(_) => Stage::Bad,
            Err(refused) => Stage::Refused(refused),
        };
        note(trial, stage);
        if trial == Trial::Control && stage != Stage::Good {
            return;
        }
    }
}
