//! Draining sums without touching the words they are made of: what was drained is subtracted instead.
//!
//! The words belong to sequences, which an atomic instruction on them would race with.

use crate::sync::{AtomicUsize, Ordering};

/// What was added since it was last drained.
pub(super) fn since(drained: &AtomicUsize, total: impl Fn() -> usize) -> usize {
    // Acquire: pairs with the exchange in `drain`: each word of the total is at least what it was then.
    let before = drained.load(Ordering::Acquire);
    total().wrapping_sub(before)
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
