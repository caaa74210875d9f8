//! What happened to signals in this process, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start of the process (a child of a fork goes on from its parent's).
///
/// Each is exact on its own; a signal that arrives while they are read may be in some of them only.
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
    /// Deferred signals of which only the number was kept, for want of room in the kernel's queue,
    /// or because the kernel refused to queue their records. Not counted: what the kernel drops
    /// without an error.
    pub lost_information: u64,
    /// How often a thread kept one of its [deferred signals](super#deferred-signals), to handle it
    /// itself at the end of the mask or to give it to the kernel later.
    pub kept: u64,
    /// Signals whose record the kernel refused to queue again, with another error than for want of
    /// room: a sandbox forbids `rt_tgsigqueueinfo`. They were sent by `tgkill` or kept.
    pub refused: u64,
    /// Real-time signals that were lost, for a thread keeps one of each number; and signals without
    /// a handler whose default action was due, for that needs the kernel.
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

    /// Returns how many there were before.
    #[cfg_attr(not(unix), allow(dead_code, reason = "nothing happens there"))]
    pub fn add(&self) -> u64 {
        // Relaxed: numbers that nothing else hangs on.
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

/// Reads the counts. Async-signal-safe.
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
