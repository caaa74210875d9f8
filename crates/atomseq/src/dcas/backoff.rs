//! Waiting for other threads: after a compare-and-swap that lost to another thread's, and before an
//! operation is refused.

use crate::sync::{AtomicU64, Ordering, spin_loop};

/// Pauses in an operation that retries: one pause at first, four times as many after each further
/// failure, and at most 2^9.
///
/// A thread that succeeds has the cache lines. While the other threads pause, it succeeds
/// repeatedly, at the speed of one thread alone. Measured with four producers and four consumers on
/// four CPUs of an AMD EPYC, a queue of capacity 1,024, and threads that spin: with a maximum of
/// 2^6 pauses an element took 1.5 times as long as with 2^9. The longest wait is about 15 µs there;
/// no thread sleeps. If the pauses only doubled, with two producers and two consumers, a queue of
/// 1,024 took 1.6 to 1.9 times as long, and a stack of 16 took 1.5 times as long (medians of seven
/// interleaved runs). With one producer and one consumer there was no difference.
#[derive(Debug, PartialEq)]
pub(crate) struct Backoff(u64);

/// The maximum number of pauses.
const LONGEST: u64 = 1 << 9;

impl Backoff {
    pub fn new() -> Backoff {
        Backoff(1)
    }

    /// Returns the pauses of a thread that waits while another CPU makes up to this many changes:
    /// first an eighth of that number, at most 128.
    ///
    /// A pause takes as long as three to five changes by a thread that has the cache lines. So the
    /// wait ends before the other CPU finds the structure empty or full, and its threads need not
    /// wait in their turn ([`Patience`]). Measured on two CPUs of an AMD EPYC, one producer and one
    /// consumer, with pauses for an eighth of what is left instead of an eighth of the capacity: a
    /// stack of 1,024 took 13 ns an element instead of 23 if threads yield, and one of 16 took 43
    /// ns instead of 47 if they spin (medians of 193 interleaved runs).
    pub fn during(changes: u64) -> Backoff {
        Backoff((changes / 8).clamp(1, 128))
    }

    pub fn spin(&mut self) {
        (0..self.0).for_each(|_| spin_loop());
        self.0 = LONGEST.min(4 * self.0);
    }
}

/// How many pauses a refused operation waits at most while nothing changes.
const IDLE: u64 = 512;

/// How many pauses it waits at most.
const LONGEST_WAIT: u64 = 4 * IDLE;

/// How many changes are made at most between two waits in vain.
const FARTHEST: u64 = 1 << 12;

/// How many pauses successful waits take at most for each change.
const PAUSES_PER_CHANGE: u64 = 8;

/// How many changes are made before the first wait.
///
/// A container may be created for one request or batch. If the first refusal waited, one that is
/// filled with 16 values and emptied took 6 µs, all in all, instead of 0.2 µs (on an Intel Xeon
/// where a pause takes 10 ns).
const FIRST: u64 = 1 << 10;

/// Decides whether an operation that a full or empty container refuses waits for other threads
/// first.
///
/// A caller that is refused yields its CPU as a rule. If other threads keep that CPU busy, it gets
/// the CPU back after milliseconds, and two threads that follow each other closely would pass only
/// tens of elements in that time. But a wait is in vain if no thread is active at the other end. So
/// after a wait in vain, one further change must be made before a thread waits again; after the
/// next, two, then four, and so on. The first wait is like one after many in vain ([`FIRST`]). A
/// thread that fills and empties a container alone spends little time here, and a polling thread
/// waits once and then stores nothing.
///
/// A caller may also have other work: it drops what it cannot push, or pops from another container.
/// If the other end is active but slow, a wait before each refusal would let such a caller do
/// nothing else. So the longer a wait was, the more changes are made before the next one
/// ([`PAUSES_PER_CHANGE`]). Threads that follow each other closely make many changes after each
/// short wait, and may wait again.
///
/// If other threads make changes of the same kind at a stack, the wait ends, and was in vain. They
/// take what the others make, or they make changes of both kinds, as at a pool of free values, and
/// might never stop. When waits at a stack went on while anything changed, a thread that popped
/// every 0.2 µs what there was, beside one that pushed and popped, took 26 µs for each turn instead
/// of 7 without waits (two CPUs of an Intel Xeon; medians of three runs). A wait at a queue looks
/// at one cell, so it ends soon after the first change, and is not in vain even if another thread
/// has passed the cell. If it was, an element through a queue of 1 with two producers and two
/// consumers that yield took 0.8 µs instead of 0.5 (the same CPUs; medians of seven interleaved
/// runs).
///
/// A wait ends when the other threads have made changes and then none between two looks: they have
/// used up what the container had for them, or they were preempted. If it ended at their first
/// change, both sides would take the cache lines from each other for every element. Measured on two
/// CPUs of an Intel Xeon, one producer and one consumer, threads that spin: a stack of 16 took
/// 100 ns an element instead of 165, one of 1,024 took 26 ns instead of 36 (medians of nine runs).
#[derive(Debug)]
pub(crate) struct Patience {
    /// No operation waits before this many changes.
    from: AtomicU64,
    /// How many changes were to be made after the last wait.
    distance: AtomicU64,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            from: AtomicU64::new(FIRST),
            distance: AtomicU64::new(FIRST / 2),
        }
    }
}

impl Patience {
    /// Waits for a limited time until what `look` returns differs from `seen` and no longer
    /// changes, or decreases. Returns whether it differs. A change of the opposite kind increases
    /// it, and one of the same kind decreases it at a stack. `changes` have been made to the
    /// container so far. The number of pauses between two looks is `pauses`, or is limited to 4 to
    /// 64: so many that the other threads can use up a small container meanwhile.
    #[inline]
    pub fn wait(&self, changes: u64, pauses: u64, seen: u64, look: impl Fn() -> u64) -> bool {
        // Relaxed: hints, all of them. No distance is longer than `FARTHEST`, unless `changes` is a
        // version that has wrapped.
        let left = self.from.load(Ordering::Relaxed).wrapping_sub(changes);
        if (1..=FARTHEST).contains(&left) {
            return false;
        }
        let pauses = pauses.clamp(4, 64);
        let (mut last, mut idle, mut waited, mut has_rivals) = (seen, 0, 0, false);
        while !has_rivals && idle + pauses <= IDLE && waited + pauses <= LONGEST_WAIT {
            (0..pauses).for_each(|_| spin_loop());
            waited += pauses;
            let now = look();
            if now == last && now != seen {
                break;
            }
            has_rivals = now < last;
            idle += if now == last { pauses } else { 0 };
            last = now;
        }
        let differs = last != seen;
        let distance = match differs && !has_rivals {
            true => waited / PAUSES_PER_CHANGE,
            false => (2 * self.distance.load(Ordering::Relaxed)).clamp(1, FARTHEST),
        };
        self.distance.store(distance, Ordering::Relaxed);
        self.from.store(changes + distance, Ordering::Relaxed);
        differs
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn pauses_grow_from_an_eighth_of_the_changes() {
        let waits = |mut backoff: Backoff| {
            [(); 4].map(|()| {
                let pauses = backoff.0;
                backoff.spin();
                pauses
            })
        };
        assert_eq!(waits(Backoff::new()), [1, 4, 16, 64]);
        assert_eq!(waits(Backoff::during(0)), [1, 4, 16, 64]);
        assert_eq!(waits(Backoff::during(16)), [2, 8, 32, 128]);
        assert_eq!(waits(Backoff::during(1 << 20)), [128, 512, 512, 512]);
    }

    /// Returns one that may wait at once.
    fn old() -> Patience {
        Patience {
            from: AtomicU64::new(0),
            distance: AtomicU64::new(0),
        }
    }

    /// Waits with 64 pauses between two looks, which see these values, and the last one from then
    /// on. Returns whether it was not in vain, and the number of looks.
    fn wait(patience: &Patience, changes: u64, sees: &[u64]) -> (bool, usize) {
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            sees[sees.len().min(looks.get()) - 1]
        };
        (patience.wait(changes, 1000, 0, look), looks.get())
    }

    #[test]
    fn a_wait_ends_when_others_have_made_changes_and_then_none() {
        assert_eq!(wait(&old(), 0, &[1]), (true, 2));
        assert_eq!(wait(&old(), 0, &[0, 0, 1, 2, 2]), (true, 5));
        assert_eq!(wait(&old(), 0, &[0, 0, 0, 0, 0, 0, 0, 0, 1]), (false, 8));
    }

    /// The looks are those of a refused pop while another thread pushes and pops.
    #[test]
    fn a_wait_is_in_vain_if_others_make_changes_at_this_end() {
        let patience = old();
        for (changes, distance) in [(0, 1), (1, 2), (3, 4)] {
            assert_eq!(wait(&patience, changes, &[1, 2, 1, 2, 1]), (true, 3));
            assert_eq!(patience.distance.load(Ordering::Relaxed), distance);
            assert_eq!(wait(&patience, changes + distance - 1, &[1]), (false, 0));
        }
        assert_eq!(wait(&patience, 7, &[1, 0, 1, 0]), (false, 2));
    }

    #[test]
    fn a_wait_is_limited_while_others_make_changes() {
        let sees: Vec<u64> = (1..100).collect();
        assert_eq!(wait(&old(), 0, &sees), (true, 32));
    }

    /// The number of pauses at which nothing has happened is the same for small containers.
    #[test]
    fn a_small_container_is_looked_at_more_often() {
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            0
        };
        assert!(!old().wait(0, 1, 0, look));
        assert_eq!(looks.get(), 128);
        // Not more, if it is no multiple of the pauses between two looks.
        looks.set(0);
        assert!(!old().wait(0, 25, 0, look));
        assert_eq!(looks.get(), 512 / 25);
    }

    /// A caller that has other work does not wait at each refusal, even if no wait is in vain.
    #[test]
    fn a_long_wait_is_not_soon_repeated() {
        let patience = old();
        let slow = [0, 0, 0, 0, 1];
        for changes in [0, 48, 96] {
            assert_eq!(wait(&patience, changes, &slow), (true, 6));
            assert_eq!(wait(&patience, changes + 47, &slow), (false, 0));
        }
        assert_eq!(wait(&patience, 144, &[1]), (true, 2));
        assert_eq!(wait(&patience, 159, &[1]), (false, 0));
        assert_eq!(wait(&patience, 160, &[0]), (false, 8));
        // Twice as many changes as after the wait before.
        assert_eq!(wait(&patience, 191, &[0]), (false, 0));
        assert_eq!(wait(&patience, 192, &[1]), (true, 2));
    }

    /// A caller that creates a container, fills it, empties it and drops it does not wait in it.
    #[test]
    fn no_operation_waits_in_a_new_container() {
        let patience = Patience::default();
        for changes in 0..1024 {
            assert_eq!(wait(&patience, changes, &[0]), (false, 0));
        }
        assert_eq!(wait(&patience, 1024, &[0]), (false, 8));
        assert_eq!(wait(&patience, 2047, &[0]), (false, 0));
        assert_eq!(wait(&patience, 2048, &[1]), (true, 2));
    }

    /// Versions have 48 bits.
    #[test]
    fn waits_go_on_when_the_version_wraps() {
        let patience = old();
        patience.distance.store(FARTHEST, Ordering::Relaxed);
        assert_eq!(wait(&patience, (1 << 48) - 1, &[0]), (false, 8));
        assert_eq!(wait(&patience, 0, &[0]), (false, 8));
        assert_eq!(wait(&patience, FARTHEST - 1, &[0]), (false, 0));
        assert_eq!(wait(&patience, FARTHEST, &[0]), (false, 8));
    }

    #[test]
    fn waits_in_vain_become_rare_until_one_is_not() {
        let patience = old();
        let in_vain = |from: u64| -> Vec<u64> {
            let waits = |changes: &u64| wait(&patience, *changes, &[0]) == (false, 8);
            (from..from + 20_000).filter(waits).collect()
        };
        let expected: Vec<u64> = (0..=12).map(|step| (1 << step) - 1).collect();
        let all = in_vain(0);
        assert_eq!(all[..13], expected);
        assert_eq!(all[13..], [8191, 12_287, 16_383]);
        // Who polls does not wait again.
        assert_eq!(wait(&patience, 16_383, &[0]), (false, 0));
        assert_eq!(wait(&patience, 20_479, &[1]), (true, 2));
        assert_eq!(in_vain(20_479)[..3], [20_495, 20_527, 20_591]);
    }
}
