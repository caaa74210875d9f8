//! The ways to be interrupted.

use atomseq::signal;

use super::interruption::{Form, Snare, count};
use crate::bench::signals::{self, BARE, MANAGED, Received};

/// A way to be interrupted.
pub struct Way {
    /// The case that sends as well.
    pub case: &'static str,
    /// The case without sending.
    pub pending: &'static str,
    /// The signal that is delivered.
    pub signal: libc::c_int,
    /// How its signals arrive.
    pub arrival: Arrival,
    /// Runs the sequence once; what this thread had received when it was at its end.
    pub once: fn(&Snare) -> Received,
}

/// Runs the sequence once. Returns what this thread had received when it was at its end.
#[inline(always)]
fn run(snare: &Snare, form: Form) -> Received {
    // SAFETY: each form here is one of the sequence's, and a catcher lives while a way is used.
    unsafe { snare.run_into(form) };
    signals::received()
}

/// How signals arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// In no sequence.
    Plain,
    /// In one that starts again.
    Restarted,
    /// In one that first runs to its end.
    Rolled,
    /// After the end of a mask.
    Deferred,
}

/// How many of them, the first ones, are atomseq's.
pub const MANAGED_WAYS: usize = 4;

/// All of them.
pub const WAYS: [Way; 5] = [
    Way {
        case: "plain",
        pending: "pending:plain",
        signal: MANAGED,
        arrival: Arrival::Plain,
        once: |snare| run(snare, count::unprotected),
    },
    Way {
        case: "restarted",
        pending: "pending:restarted",
        signal: MANAGED,
        arrival: Arrival::Restarted,
        once: |snare| run(snare, count::restarting),
    },
    Way {
        case: "rolled",
        pending: "pending:rolled",
        signal: MANAGED,
        arrival: Arrival::Rolled,
        once: |snare| run(snare, count::rolling),
    },
    Way {
        case: "deferred",
        pending: "pending:deferred",
        signal: MANAGED,
        arrival: Arrival::Deferred,
        once: |snare| {
            let _mask = signal::mask();
            run(snare, count::unprotected)
        },
    },
    Way {
        case: "bare",
        pending: "pending:bare",
        signal: BARE,
        arrival: Arrival::Plain,
        once: |snare| run(snare, count::unprotected),
    },
];
