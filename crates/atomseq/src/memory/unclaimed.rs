//! How long nobody has claimed a descriptor.
//!
//! ```text
//! Header::unclaimed:  0 ──an audit finds it allocated──> the audit's number ──it reads the clock──> when that was
//!                     0 <───────────────────────allocated or claimed──────────────┴──────────────────────┘
//! ```
//!
//! A descriptor whose word still says when an earlier audit found it has been claimed by nobody since. The number goes first, so
//! that an audit that is held up before it says when does not overlook claims: its exchange of its own number fails then.
//! A number is used again after 2^31 audits. `moment` has the rules.

use super::moment::Moment;
use crate::sync::{AtomicU32, Ordering};

/// An audit has this number, and has not yet said when.
const LOOKED_AT: u32 = 1 << 31;

/// One audit's way of looking at descriptors.
pub(super) struct Look<N> {
    number: u32,
    now: N,
    time: u32,
}

impl<N: Fn() -> Moment> Look<N> {
    /// The number is no other audit's; the time is in milliseconds.
    pub fn new(number: u32, now: N, time: u32) -> Look<N> {
        let number = number | LOOKED_AT;
        Look { number, now, time }
    }

    /// Has nobody claimed it for longer than the time? If no audit has said since when, or so long ago that nobody can
    /// tell, the time runs from now.
    pub fn finds_unclaimed(&self, word: &AtomicU32) -> bool {
        // Acquire: the clock is read after it; pairs with the release in `start`.
        let found = word.load(Ordering::Acquire);
        let has_said_when = found != 0 && found & LOOKED_AT == 0;
        let since = has_said_when.then(|| Moment::of_word(found));
        let passed = since.and_then(|since| since.before((self.now)()));
        if passed.is_none() {
            self.start(word, found);
        }
        // Both times were cut to whole milliseconds, so an equal distance may have been a shorter one.
        // Relaxed: a claim before the clock was read is seen, or counts for the next audit.
        let is_over = |passed| passed > self.time && word.load(Ordering::Relaxed) == found;
        self.time == 0 || passed.is_some_and(is_over)
    }

    /// Says that it is unclaimed, and then since when; unless somebody claims it meanwhile, or another audit does the same.
    fn start(&self, word: &AtomicU32, found: u32) {
        let exchange = |old, new| {
            // AcqRel: the clock is read between the two; pairs with the acquire of who reads it later.
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            word.compare_exchange(old, new, order.0, order.1).is_ok()
        };
        if exchange(found, self.number) {
            let since = (self.now)().not_zero();
            exchange(self.number, since.word());
        }
    }
}
