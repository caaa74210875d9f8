//! How long a descriptor has been unclaimed.
//!
//! ```text
//! Header::unclaimed:
//!
//! 0 ──an audit finds it allocated──> the audit's number ──it reads the clock──> the moment
//! ^                                          │                                      │
//! └──────────── allocated or claimed ────────┴──────────────────────────────────────┘
//! ```
//!
//! If a descriptor's word still holds the moment of an earlier audit, the descriptor was not
//! claimed since. An audit stores its number before it reads the clock. If it is delayed in between
//! and a claim intervenes, its exchange from its own number fails. Numbers repeat after 2^31
//! audits. `moment` states the rules.
//!
//! The word does not name the allocation, but no recorded moment outlasts its allocation:
//!
//! 1. An allocation starts in three steps: the version says free, the word is cleared, the version
//!    says allocated.
//! 2. After an audit has stored its number, it checks that the allocation it examines still lasts,
//!    and records the moment only then.
//! 3. Clearing the word erases an earlier number. If the number is stored after the word was
//!    cleared, the audit sees a version other than the one it examines, unless it examines the new
//!    allocation.

use super::moment::Moment;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// Marks the number of an audit that has not yet recorded the moment.
const LOOKED_AT: u32 = 1 << 31;

/// The parameters of one audit, applied to each descriptor.
pub(super) struct Look<N> {
    number: u32,
    now: N,
    time: u32,
    start: Option<Option<Moment>>,
}

impl<N: Fn() -> Option<Moment>> Look<N> {
    /// Creates a look. The number is unique to this audit; the time is in milliseconds.
    pub fn new(number: u32, now: N, time: u32) -> Look<N> {
        let number = number | LOOKED_AT;
        Look {
            number,
            now,
            time,
            start: None,
        }
    }

    /// Counts the time until the audit started, at this moment, rather than until each look.
    pub fn before(self, start: Option<Moment>) -> Look<N> {
        let start = Some(start);
        Look { start, ..self }
    }

    /// Returns whether the allocation still lasts and was not claimed for longer than the time. If
    /// no moment is recorded, or it is too long ago to be compared, the time starts now.
    pub fn finds_unclaimed(&self, word: &AtomicU32, is_current: impl Fn() -> bool) -> bool {
        // Acquire: orders the reading of the clock after this load; pairs with the Release exchange
        // in `start`.
        let found = word.load(Ordering::Acquire);
        let has_said_when = found != 0 && found & LOOKED_AT == 0;
        let since = has_said_when.then(|| Moment::of_word(found));
        let until = || self.start.unwrap_or_else(&self.now);
        let passed = match since {
            Some(since) => until().map(|now| since.before(now)),
            None => Some(None),
        };
        // Without a clock reading, the record stays as it is.
        if passed == Some(None) {
            self.start(word, found, &is_current);
        }
        let passed = passed.flatten();
        // Both moments were rounded down to milliseconds, so an equal difference may be a shorter
        // time. Relaxed: a claim made before the clock was read is visible, or counts for the next
        // audit.
        let is_over = |passed| passed > self.time && word.load(Ordering::Relaxed) == found;
        let is_unclaimed = self.time == 0 || passed.is_some_and(is_over);
        // The descriptor may have been freed meanwhile, or allocated by another owner.
        is_unclaimed && is_current()
    }

    /// Records that the descriptor is unclaimed, and then since when. Stops if it is claimed
    /// meanwhile, another audit intervenes, or the allocation has ended.
    fn start(&self, word: &AtomicU32, found: u32, is_current: impl Fn() -> bool) {
        let exchange = |old, new| {
            // AcqRel: the clock and the version are read between the two exchanges. Pairs with the
            // Acquire load of the word in `finds_unclaimed` and with the Release store in `begin`.
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            word.compare_exchange(old, new, order.0, order.1).is_ok()
        };
        // A number that remains after its allocation has ended acts as no record.
        if exchange(found, self.number) && is_current() {
            // Without the time the number remains, which acts as no record.
            if let Some(now) = (self.now)() {
                exchange(self.number, now.not_zero().word());
            }
        }
    }
}

/// Starts an allocation of a free descriptor that the caller owns. Returns its version.
#[inline]
pub(super) fn begin(version: &AtomicUsize, word: &AtomicU32) -> usize {
    // Release: an audit that stores its number after this store sees that the earlier allocation
    // has ended. Pairs with the Acquire exchange in `start`; a claim's exchange continues the
    // release sequence.
    word.store(0, Ordering::Release);
    // Relaxed: only the owner changes the version. Release: a thread that sees the new version sees
    // the cleared word; pairs with the Acquire load of the version in `audit`.
    let allocated = version.load(Ordering::Relaxed).wrapping_add(1);
    version.store(allocated, Ordering::Release);
    allocated
}

/// Ends the allocation with version `ended` and starts another of the same descriptor. Returns
/// `false` if it had already ended.
pub(super) fn renew(version: &AtomicUsize, word: &AtomicU32, ended: usize) -> bool {
    // Acquire: orders the former owner's accesses before the new allocation. Release: pairs with
    // the Acquire loads of the version.
    let order = (Ordering::AcqRel, Ordering::Relaxed);
    let freed = version.compare_exchange(ended, ended.wrapping_add(1), order.0, order.1);
    if freed.is_ok() {
        begin(version, word);
    }
    freed.is_ok()
}

/// Does the same as [`claim`]. Costs no atomic instruction if no audit has found the descriptor
/// since it was claimed last.
#[inline(always)]
pub(super) fn claim_if_found(word: &AtomicU32) {
    // Relaxed, as in `claim`. If this misses the number of an audit, the audit is under way.
    if word.load(Ordering::Relaxed) != 0 {
        claim(word);
    }
}

/// Claims whatever is allocated there now.
#[cold]
pub(super) fn claim(word: &AtomicU32) {
    // An exchange rather than a store: it continues the release sequence of `begin`, so an audit
    // that reads it still acquires what `begin` released. Relaxed: a claim that a concurrent audit
    // misses counts for the next.
    word.swap(0, Ordering::Relaxed);
}
