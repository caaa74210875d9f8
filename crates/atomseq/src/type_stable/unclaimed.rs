//! How long nobody has claimed a descriptor.
//!
//! ```text
//! Header::unclaimed:  0 ──an audit finds it allocated──> the audit's number ──it reads the clock──> when that was
//!                     0 <───────────────────────allocated or claimed──────────────┴──────────────────────┘
//! ```
//!
//! A descriptor whose word still says when an earlier audit found it has been claimed by nobody
//! since. The number goes first, so that an audit that is held up before it says when does not
//! overlook claims: its exchange of its own number fails then. A number is used again after 2^31
//! audits. `moment` has the rules.
//!
//! The word does not say of which allocation it is, but no moment outlasts an allocation:
//!
//! 1. An allocation begins in three steps: the version says that the descriptor is free, the word
//!    is cleared, the version says that it is allocated.
//! 2. An audit that has left its number asks whether the allocation that it looks at still lasts,
//!    and says when only if so.
//! 3. A number from before the word was cleared is gone with it. With a number from after that, the
//!    audit finds another version than its own, unless its own is that of the new allocation.

use super::moment::Moment;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// An audit has this number, and has not yet said when.
const LOOKED_AT: u32 = 1 << 31;

/// One audit's way of looking at descriptors.
pub(super) struct Look<N> {
    number: u32,
    now: N,
    time: u32,
}

impl<N: Fn() -> Option<Moment>> Look<N> {
    /// The number is no other audit's; the time is in milliseconds.
    pub fn new(number: u32, now: N, time: u32) -> Look<N> {
        let number = number | LOOKED_AT;
        Look { number, now, time }
    }

    /// Does the allocation still last, and has nobody claimed it for longer than the time? If no
    /// audit has said since when, or so long ago that it is not known, the time runs from now.
    pub fn finds_unclaimed(&self, word: &AtomicU32, is_current: impl Fn() -> bool) -> bool {
        // Acquire: the clock is read after it; pairs with the release in `start`.
        let found = word.load(Ordering::Acquire);
        let has_said_when = found != 0 && found & LOOKED_AT == 0;
        let since = has_said_when.then(|| Moment::of_word(found));
        let passed = match since {
            Some(since) => (self.now)().map(|now| since.before(now)),
            None => Some(None),
        };
        // Who is not told the time leaves what is noted as it is.
        if passed == Some(None) {
            self.start(word, found, &is_current);
        }
        let passed = passed.flatten();
        // Both times were cut to whole milliseconds, so an equal distance may have been a shorter
        // one. Relaxed: a claim before the clock was read is seen, or counts for the next audit.
        let is_over = |passed| passed > self.time && word.load(Ordering::Relaxed) == found;
        let is_unclaimed = self.time == 0 || passed.is_some_and(is_over);
        // Perhaps freed meanwhile, or allocated by another owner.
        is_unclaimed && is_current()
    }

    /// Says that it is unclaimed, and then since when; unless somebody claims it meanwhile, another
    /// audit does the same, or the allocation has ended.
    fn start(&self, word: &AtomicU32, found: u32, is_current: impl Fn() -> bool) {
        let exchange = |old, new| {
            // AcqRel: the clock and the version are read between the two; pairs with the acquire of
            // who reads the clock later, and with the release in `begin`.
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            word.compare_exchange(old, new, order.0, order.1).is_ok()
        };
        // A number that is left where the allocation has ended is as good as nothing.
        if exchange(found, self.number) && is_current() {
            // Without the time the number stays: it says as much as nothing.
            if let Some(now) = (self.now)() {
                exchange(self.number, now.not_zero().word());
            }
        }
    }
}

/// Begins an allocation of a descriptor that the caller owns and whose version says that it is
/// free. Returns its version.
#[inline]
pub(super) fn begin(version: &AtomicUsize, word: &AtomicU32) -> usize {
    // Release: an audit whose number comes after this, or after claims, sees that the allocation
    // before has ended.
    word.store(0, Ordering::Release);
    // Relaxed: its owner alone changes it. Release: whoever sees it allocated sees it claimed;
    // pairs with the Acquire in `audit`.
    let allocated = version.load(Ordering::Relaxed).wrapping_add(1);
    version.store(allocated, Ordering::Release);
    allocated
}

/// Ends the allocation of a version and begins another one, of the same descriptor. `false`: it had
/// ended.
pub(super) fn renew(version: &AtomicUsize, word: &AtomicU32, ended: usize) -> bool {
    // Acquire: what the old owner did comes before; Release: pairs with the Acquire of those who
    // look.
    let order = (Ordering::AcqRel, Ordering::Relaxed);
    let freed = version.compare_exchange(ended, ended.wrapping_add(1), order.0, order.1);
    if freed.is_ok() {
        begin(version, word);
    }
    freed.is_ok()
}

/// Claims whatever is allocated there now.
pub(super) fn claim(word: &AtomicU32) {
    // An exchange and no store, so that an audit that reads it acquires what `begin` has released.
    // Relaxed: a claim that a concurrent audit misses counts for the next.
    word.swap(0, Ordering::Relaxed);
}
