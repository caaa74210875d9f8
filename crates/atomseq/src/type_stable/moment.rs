//! When something was first seen, and how long ago that is.
//!
//! A trim notes when it has seen a page all free, an audit when it has seen a descriptor unclaimed;
//! a later one asks whether enough time has passed since. Any number of both may be under way, and
//! any of them may be held up anywhere. So:
//!
//! 1. A moment that is noted is read from the clock after what it is noted for was seen: it is
//!    never too early.
//! 2. It is noted by an exchange, which fails if anything has changed since that look.
//! 3. A moment that is compared with a noted one is read after that, and what was seen is looked at
//!    again afterwards.
//! 4. Should the noted moment be the later one all the same, no time has passed.
//! 5. Where the system refuses to tell the time, nothing is noted, and no time has passed.

use std::time::Duration;

/// A moment in whole milliseconds of the [`clock`](crate::clock). Goes round after 24 days, and so
/// is compared with those of the 12 days around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment(u32);

/// How many bits a moment has.
const BITS: u32 = 31;

impl Moment {
    /// So long after the clock's beginning.
    pub fn after(time: Duration) -> Moment {
        Moment::of_word(time.as_millis() as u32)
    }

    /// What `word` made a word of. Higher bits do not count.
    pub fn of_word(word: u32) -> Moment {
        Moment(word & ((1 << BITS) - 1))
    }

    /// Below 2^31.
    pub fn word(self) -> u32 {
        self.0
    }

    /// This moment, or the one after it: never 0.
    pub fn not_zero(self) -> Moment {
        Moment(self.0.max(1))
    }

    /// How many milliseconds before `now` it was. `None`: it was not, or more than 12 days before.
    pub fn before(self, now: Moment) -> Option<u32> {
        let passed = Moment::of_word(now.0.wrapping_sub(self.0)).0;
        (passed < 1 << (BITS - 1)).then_some(passed)
    }
}

/// Rounded up. More than 12 days is as good as for ever: no two moments are as far apart.
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
        // Where it goes round, where it is half round, and where the clock's own 32 bits do.
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

    /// After too long a time, less seems to have passed, and never more.
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
