//! Counts of what happened to signals in this process.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start of the process; the child of a fork continues with its parent's.
///
/// Each count is exact. They are read one after the other, so a signal that arrives meanwhile may
/// be in some of them only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Runs of handlers that were installed through this module.
    pub deliveries: u64,
    /// Sequences that were restarted: by deliveries that are
    /// [`Restarted`](super::Interrupted::Restarted), by signals that were then deferred, and after
    /// the handler of a fault in the sequence.
    pub restarts: u64,
    /// Sequences that were rolled forward.
    pub rollforwards: u64,
    /// Signals that were deferred, by a mask or until a rollforward under way, or another delivery,
    /// has ended. One that is deferred twice counts twice.
    pub deferrals: u64,
    /// Rollforwards that did not end within the [limit](super::set_rollforward_limit).
    pub abandoned: u64,
    /// Faults during rollforwards.
    pub faults: u64,
    /// Deferred signals that lost their record, because the kernel's queue had no room for it or
    /// the kernel refused to queue it. What the kernel drops without an error is not counted.
    pub lost_information: u64,
    /// How often a thread kept one of its [deferred signals](super#deferred-signals), to handle it
    /// itself at the end of the mask or to queue it to the kernel later.
    pub kept: u64,
    /// Signals that the kernel refused to queue again with their record, for another reason than
    /// lack of room: a sandbox forbids `rt_tgsigqueueinfo`. They were sent by `tgkill` or kept.
    pub refused: u64,
    /// Signals that were lost. Real-time signals, because a thread keeps at most one of each
    /// number; and, where a sandbox refuses to send signals, those whose default action was due.
    pub lost_signals: u64,
}

pub(super) struct Counts {
    pub deliveries: Count,
    pub restarts: Count,
    pub rollforwards: Count,
    pub deferrals: Count,
    pub abandoned: Count,
    pub faults: Count,
    pub lost_information: Count,
    pub kept: Count,
    pub refused: Count,
    pub lost_signals: Count,
}

pub(super) struct Count(AtomicU64);

impl Count {
    const fn zero() -> Count {
        Count(AtomicU64::new(0))
    }

    /// Adds one and returns the count before.
    #[cfg_attr(not(unix), allow(dead_code, reason = "nothing happens there"))]
    pub fn add(&self) -> u64 {
        // Relaxed: no other data depends on the counts.
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(super) static COUNTS: Counts = Counts {
    deliveries: Count::zero(),
    restarts: Count::zero(),
    rollforwards: Count::zero(),
    deferrals: Count::zero(),
    abandoned: Count::zero(),
    faults: Count::zero(),
    lost_information: Count::zero(),
    kept: Count::zero(),
    refused: Count::zero(),
    lost_signals: Count::zero(),
};

/// Returns the counts of this process. Ten loads; async-signal-safe.
pub fn statistics() -> Statistics {
    Statistics {
        deliveries: COUNTS.deliveries.get(),
        restarts: COUNTS.restarts.get(),
        rollforwards: COUNTS.rollforwards.get(),
        deferrals: COUNTS.deferrals.get(),
        abandoned: COUNTS.abandoned.get(),
        faults: COUNTS.faults.get(),
        lost_information: COUNTS.lost_information.get(),
        kept: COUNTS.kept.get(),
        refused: COUNTS.refused.get(),
        lost_signals: COUNTS.lost_signals.get(),
    }
}
