//! Resettable sums over words that only sequences may write.
//!
//! An atomic instruction on such a word would race with the sequences, so a reset does not touch
//! the words. It records the total at the reset, the *baseline*, and readers subtract it.

use crate::sync::{AtomicUsize, Ordering, fence};

/// How often `since` reads the total while other threads drain. The bound keeps reading wait-free.
/// Where one thread added to a gauge and set it all the time, and another read it, three in a
/// hundred million values took more than eight readings.
const READINGS: usize = 32;

/// Returns what was added since the last drain.
///
/// The result is exact if no thread drained while the total was read. If one did during every
/// reading, the result is what this call saw of the additions since the last of these drains, or
/// zero.
pub(super) fn since(drained: &AtomicUsize, total: impl Fn() -> usize) -> usize {
    match read(drained, total) {
        Ok(since) => since,
        // The last drain may have seen more additions than `total` did: then the difference is
        // negative.
        Err(since) => usize::try_from(since).unwrap_or(0),
    }
}

/// Returns the same of additions that may be negative. If a thread drained during every reading,
/// the result lacks what the last of these drains saw of the additions and this call did not.
pub(super) fn signed_since(drained: &AtomicUsize, total: impl Fn() -> usize) -> isize {
    read(drained, total).map_or_else(|since| since, |since| since as isize)
}

/// Returns what was added since the last drain. `Err`: a thread drained during every reading, and
/// this is the difference to the last of these drains.
fn read(drained: &AtomicUsize, total: impl Fn() -> usize) -> Result<usize, isize> {
    // Acquire: pairs with the exchange in `replace`. Each word of the total is then at least as
    // large as the drain that set this baseline has seen it.
    let mut before = drained.load(Ordering::Acquire);
    let mut since = 0;
    for _ in 0..READINGS {
        since = total().wrapping_sub(before);
        // Keeps the loads of the words, which may be relaxed, before the load of `after`. If that
        // load sees a later baseline, it pairs with the release of the exchange in `replace`.
        fence(Ordering::Acquire);
        let after = drained.load(Ordering::Acquire);
        if after == before {
            return Ok(since);
        }
        since = since.wrapping_sub(after.wrapping_sub(before));
        before = after;
    }
    Err(since as isize)
}

/// Returns what was added since the last drain, and starts again at zero. Each addition is in
/// exactly one result.
pub(super) fn drain(drained: &AtomicUsize, total: impl Fn() -> usize) -> usize {
    replace(drained, 0, total)
}

/// Returns what was added since the last drain, and starts again at `value`. Each addition is
/// either in the result, or added to `value`.
pub(super) fn replace(drained: &AtomicUsize, value: usize, total: impl Fn() -> usize) -> usize {
    // Acquire, here and on failure: pairs with the release of another thread's exchange. The total
    // read next is at least as large as that baseline.
    let mut before = drained.load(Ordering::Acquire);
    loop {
        let now = total();
        let after = now.wrapping_sub(value);
        match drained.compare_exchange_weak(before, after, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return now.wrapping_sub(before),
            Err(meanwhile) => before = meanwhile,
        }
    }
}
