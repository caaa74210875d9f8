//! Draining sums without touching the words they are made of: what was drained is subtracted
//! instead.
//!
//! The words belong to sequences, which an atomic instruction on them would race with.

use crate::sync::{AtomicUsize, Ordering, fence};

/// How often the total is read while others drain: so many, that reading stays wait-free.
const READINGS: usize = 8;

/// What was added since it was last drained.
///
/// If the base line is the same before and after the total was read, the total belongs to it. If
/// others have drained during each of some readings: what was added since the last of them, as far
/// as it was seen, or nothing.
pub(super) fn since(drained: &AtomicUsize, total: impl Fn() -> usize) -> usize {
    // Acquire: pairs with the exchange in `drain`: each word of the total is at least what it was
    // then.
    let mut before = drained.load(Ordering::Acquire);
    let mut since = 0;
    for _ in 0..READINGS {
        since = total().wrapping_sub(before);
        // The words are read before it, also by relaxed loads.
        fence(Ordering::Acquire);
        let after = drained.load(Ordering::Acquire);
        if after == before {
            return since;
        }
        since = since.wrapping_sub(after.wrapping_sub(before));
        before = after;
    }
    // The last to drain may have seen more.
    usize::try_from(since as isize).unwrap_or(0)
}

/// The same, drained: everything added is in one result, and in one only.
pub(super) fn drain(drained: &AtomicUsize, total: impl Fn() -> usize) -> usize {
    // Acquire, here and on failure: as in `since`.
    let mut before = drained.load(Ordering::Acquire);
    loop {
        let now = total();
        match drained.compare_exchange_weak(before, now, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return now.wrapping_sub(before),
            Err(meanwhile) => before = meanwhile,
        }
    }
}
