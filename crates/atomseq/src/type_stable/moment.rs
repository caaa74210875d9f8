//! The moment of an observation, and how long ago it was.
//!
//! A trim records when it saw a page all free, and an audit when it saw a descriptor unclaimed. A
//! later one asks whether enough time has passed. Any number of both may run at once, and each may
//! be delayed at any point. These rules make that safe:
//!
//! 1. A recorded moment is read from the clock after the observation, so it is never too early.
//! 2. It is recorded by a compare-and-swap, which fails if anything has changed since the
//!    observation.
//! 3. A moment to compare with a recorded one is read after the recorded one, or when the audit
//!    started, and the observed state is checked again afterwards.
//! 4. If the recorded moment is nevertheless the later one, no time has passed.
//! 5. If the system does not report the time, nothing is recorded and no time has passed.

use std::time::Duration;

/// A moment in whole milliseconds of the [`clock`](crate::clock). Wraps around after 24 days, so it
/// can be compared only with moments within 12 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment(u32);

/// The number of bits in a moment.
const BITS: u32 = 31;

impl Moment {
    /// Returns the moment so long after the origin of the clock.
    pub fn after(time: Duration) -> Moment {
        Moment::of_word(time.as_millis() as u32)
    }

    /// Decodes the result of `word`, ignoring higher bits.
    pub fn of_word(word: u32) -> Moment {
        Moment(word & ((1 << BITS) - 1))
    }

    /// Encodes the moment as a number below 2^31.
    pub fn word(self) -> u32 {
        self.0
    }

    /// Returns this moment, or the next one if this is 0.
    pub fn not_zero(self) -> Moment {
        Moment(self.0.max(1))
    }

    /// Returns how many milliseconds before `now` this moment was. `None`: it was later, or more
    /// than 12 days before.
    pub fn before(self, now: Moment) -> Option<u32> {
        let passed = Moment::of_word(now.0.wrapping_sub(self.0)).0;
        (passed < 1 << (BITS - 1)).then_some(passed)
    }
}

/// Rounds up to milliseconds. More than 12 days acts as indefinitely: no two moments differ by as
/// much.
pub(super) fn whole_milliseconds(time: Duration) -> u32 {
    let milliseconds = time.as_nanos().div_ceil(1_000_000);
    u32::try_from(milliseconds).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Moment {
        Moment::after(Duration::from_millis(milliseconds))
    }

    const DAY: u64 = 24 * 60 * 60 * 1000;

    #[test]
    fn differences_are_those_of_the_clock() {
        // Where a moment wraps around, where it is halfway, and where the clock's own 32 bits wrap.
        for start in [0, 1, (1 << 30) - 5, (1 << 31) - 5, (1 << 32) - 5, 1 << 40] {
            for passed in [0, 1, 9, 1000, DAY, 12 * DAY] {
                assert_eq!(at(start).before(at(start + passed)), Some(passed as u32));
            }
        }
    }

    #[test]
    fn no_time_has_passed_since_what_comes_later() {
        for start in [0, 1, (1 << 31) - 5, (1 << 32) - 5] {
            for ahead in [1, 9, 1000, DAY, 12 * DAY] {
                assert_eq!(at(start + ahead).before(at(start)), None);
            }
        }
    }

    /// After too long a time, too little seems to have passed, but never too much.
    #[test]
    fn after_too_long_a_time_less_has_passed() {
        for days in 13..200 {
            let passed = at(7).before(at(7 + days * DAY));
            assert!(passed.is_none_or(|passed| u64::from(passed) < days * DAY));
        }
    }

    #[test]
    fn no_time_is_longer_than_for_ever() {
        let longest = at(0).before(at((1 << 30) - 1)).unwrap();
        assert!(longest < whole_milliseconds(Duration::from_secs(13 * 24 * 60 * 60)));
        assert!(longest < whole_milliseconds(Duration::MAX));
        assert_eq!(whole_milliseconds(Duration::from_nanos(1)), 1);
    }

    #[test]
    fn a_moment_for_a_word_that_is_not_zero_is_not_earlier() {
        assert_eq!(at(0).not_zero(), at(1));
        assert_eq!(at(1 << 31).not_zero(), at(1));
        assert_eq!(at(5).not_zero(), at(5));
    }
}
