//! The distance between two counts that grow while they are read.

/// The max number of readings, so that the operation is wait-free.
const READINGS: usize = 8;

/// The max distance of two counts. Beyond it, the one behind would seem to be ahead. Only
/// zero-sized values allow a larger capacity, which is refused.
pub(crate) const MAX: usize = isize::MAX as usize;

/// Returns how far the count `ahead` was ahead of the count `behind` at one moment of this call.
/// Both only grow, and their distance is at most `max`, which is at most [`MAX`].
///
/// If `behind` is the same before and after `ahead` was read, the result is exact for that moment.
/// Otherwise elements left during each reading. The last difference is at most the distance at one
/// moment, and the distance was at least `step` at some moment. So the result is the difference,
/// clamped to `step..=max`.
///
/// This holds if the thread sees the counts grow in the order in which they did. Plain stores on
/// x86-64, as sequences make them, provide this. On AArch64 the result is between 0 and `max`, and
/// exact when nothing changes.
pub(crate) fn distance(
    mut behind: impl FnMut() -> usize,
    mut ahead: impl FnMut() -> usize,
    step: usize,
    max: usize,
) -> usize {
    debug_assert!(max <= MAX);
    let clamped = |distance: usize, least: usize| {
        // Negative if `behind` is seen ahead, on AArch64.
        let distance = usize::try_from(distance as isize).unwrap_or(0);
        distance.clamp(least, max)
    };
    let mut before = behind();
    let mut last = 0;
    for _ in 0..READINGS {
        let front = ahead();
        let after = behind();
        last = front.wrapping_sub(after);
        if after == before {
            return clamped(last, 0);
        }
        before = after;
    }
    clamped(last, step)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::*;

    /// The capacity of the structure.
    const ROOM: usize = 3;

    /// A structure that changes while it is read.
    #[derive(Default)]
    struct Running {
        pushed: usize,
        popped: usize,
        lengths: BTreeSet<usize>,
        /// The number of operations before each reading, two bits each, and the kind of each, from
        /// the lowest bits on.
        gaps: u64,
        pushes: u64,
    }

    impl Running {
        fn go_on(&mut self) {
            self.lengths.insert(self.pushed - self.popped);
            for _ in 0..self.gaps & 3 {
                match self.pushes & 1 == 1 {
                    true => self.pushed += usize::from(self.pushed - self.popped < ROOM),
                    false => self.popped += usize::from(self.pushed > self.popped),
                }
                self.lengths.insert(self.pushed - self.popped);
                self.pushes = self.pushes.rotate_right(1);
            }
            self.gaps = self.gaps.rotate_right(2);
        }
    }

    /// Returns in how many of 100,000 random schedules the reported length is outside the range of
    /// actual lengths.
    fn wrong(length: impl Fn(&RefCell<Running>) -> usize) -> usize {
        let mut seed = 1u64;
        let mut next = || {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            seed ^ seed >> 32
        };
        let courses = 100_000;
        let is_wrong = |_: &u32| {
            let running = RefCell::new(Running {
                gaps: next(),
                pushes: next(),
                ..Running::default()
            });
            running.borrow_mut().go_on();
            running.borrow_mut().lengths.clear();
            let length = length(&running);
            let lengths = &running.borrow().lengths;
            let (first, last) = (lengths.first().unwrap(), lengths.last().unwrap());
            !(*first..=*last).contains(&length)
        };
        (0..courses).filter(is_wrong).count()
    }

    fn behind(running: &RefCell<Running>) -> usize {
        running.borrow_mut().go_on();
        running.borrow().popped
    }

    fn ahead(running: &RefCell<Running>) -> usize {
        running.borrow_mut().go_on();
        running.borrow().pushed
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes long to interpret")]
    fn a_length_is_one_that_there_was() {
        let length = |of: &RefCell<Running>| distance(|| behind(of), || ahead(of), 1, ROOM);
        assert_eq!(wrong(length), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes long to interpret")]
    fn counts_read_one_after_the_other_are_found_out() {
        let length = |of: &RefCell<Running>| {
            let behind = behind(of);
            ahead(of).wrapping_sub(behind).min(ROOM)
        };
        assert!(wrong(length) > 1000);
    }

    #[test]
    fn counts_wrap_around_and_may_seem_to_have_passed() {
        assert_eq!(distance(|| usize::MAX, || 1, 1, ROOM), 2);
        assert_eq!(distance(|| 5, || 4, 1, ROOM), 0);
        let mut moving = 0;
        let behind = || {
            moving += 1;
            moving
        };
        assert_eq!(distance(behind, || 4, 1, ROOM), 1);
        assert_eq!(distance(|| 7, || MAX.wrapping_add(7), 1, MAX), MAX);
    }
}
