//! Contention: a thread whose change others have forestalled gives way to them, for longer each
//! time that this goes on.
//!
//! Threads on several CPUs that change the same words take the cache lines from each other, and
//! each change of theirs takes several times as long as one thread's alone. It pays that all but
//! one are away for a while: first they spin, then they yield the CPU to whoever is ready to run on
//! it. Nobody waits for anybody: whoever comes back goes on by itself, and nobody sleeps, for
//! another thread may poll for just what the sleeper was about to do.

use crate::clock;
use crate::sync::{AtomicU64, Ordering, spin_loop};

/// A thread that gives way for the first time makes 4 pauses, twice as many at each further level;
/// at the last one it yields.
const LAST: u64 = 7;

/// Who has to give way again so soon, in nanoseconds, is at the next level; who could go on for
/// longer than FAR, at the one before.
///
/// Measured on four busy CPUs, a producer and a consumer that poll lists with at most 16 values
/// under way, lower quartiles of 40 runs: 0.2 to 0.5 µs a value in most rounds; with sleeps of 60
/// to 480 µs in this place 6 to 68. CPU time an operation of 32 threads that do nothing else was
/// lower than with the sleeps in 11 of 12 interleaved comparisons.
const NEAR: u64 = 1_000;
const FAR: u64 = 4 * NEAR;

/// What this thread has met last. A handler that comes in between leaves numbers that belong
/// together less: then it is away for another time.
struct Met {
    object: AtomicU64,
    /// When it came back from giving way, in nanoseconds.
    back: AtomicU64,
    level: AtomicU64,
}

/// Gives way to those who have changed an object. It may yield the CPU.
#[cold]
pub(super) fn back_off<T>(object: &T) {
    let met = met();
    let address = &raw const *object as u64;
    let level = met.next_level(address, nanoseconds());
    match level {
        LAST => std::thread::yield_now(),
        level => (0..4 << level).for_each(|_| spin_loop()),
    }
    met.remember(address, nanoseconds(), level);
}

/// The time, always 0 where the system refuses to tell it: then contention seems to go on, and the
/// thread yields in the end.
fn nanoseconds() -> u64 {
    clock::now().map_or(0, |time| time.as_nanos() as u64)
}

// Relaxed, all of them: they are this thread's own.
impl Met {
    fn next_level(&self, object: u64, now: u64) -> u64 {
        if self.object.load(Ordering::Relaxed) != object {
            return 0;
        }
        let level = self.level.load(Ordering::Relaxed);
        match now.wrapping_sub(self.back.load(Ordering::Relaxed)) {
            0..NEAR => LAST.min(level + 1),
            NEAR..FAR => level,
            _ => level.saturating_sub(1),
        }
    }

    fn remember(&self, object: u64, back: u64, level: u64) {
        self.object.store(object, Ordering::Relaxed);
        self.back.store(back, Ordering::Relaxed);
        self.level.store(level, Ordering::Relaxed);
    }
}

/// This thread's.
fn met() -> &'static Met {
    let address = crate::__thread_storage!(
        Met,
        Met {
            object: AtomicU64::new(0),
            back: AtomicU64::new(0),
            level: AtomicU64::new(0),
        }
    );
    // SAFETY: it is there from the thread's first instruction to its last, and the caller does not
    // give it away.
    unsafe { &*address }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::refusal;

    const OBJECT: u64 = 0x1000;

    /// The level of a thread that has given way so often, each time so long after it came back.
    fn level_after(times: u64, apart: u64) -> u64 {
        let met = Met {
            object: AtomicU64::new(0),
            back: AtomicU64::new(0),
            level: AtomicU64::new(0),
        };
        for time in 1..=times {
            let now = time * apart;
            met.remember(OBJECT, now, met.next_level(OBJECT, now));
        }
        assert_eq!(met.next_level(OBJECT + 64, times * apart), 0);
        met.level.load(Ordering::Relaxed)
    }

    #[test]
    fn contention_that_goes_on_makes_a_thread_yield() {
        assert_eq!(level_after(LAST, NEAR - 1), LAST - 1);
        assert_eq!(level_after(LAST + 1, NEAR - 1), LAST);
        assert_eq!(level_after(100, NEAR - 1), LAST, "there is no further");
    }

    #[test]
    fn who_had_the_words_for_a_while_does_not_yield() {
        assert_eq!(level_after(100, FAR), 0);
        assert_eq!(level_after(100, NEAR), 0, "it stays at a level");
    }

    /// Every third time soon again: from the highest level it comes down, and stays there.
    #[test]
    fn who_meets_others_now_and_then_does_not_yield() {
        let met = Met {
            object: AtomicU64::new(OBJECT),
            back: AtomicU64::new(0),
            level: AtomicU64::new(LAST),
        };
        let mut now = 0;
        for time in 0..300 {
            now += if time % 3 == 0 { NEAR / 2 } else { FAR };
            met.remember(OBJECT, now, met.next_level(OBJECT, now));
        }
        assert!(met.level.load(Ordering::Relaxed) <= 1);
    }

    /// In a handler or a destructor as well, where a panic would end the process.
    #[test]
    fn a_thread_that_is_not_told_the_time_yields_in_the_end() {
        let object = 0_u64;
        refusal::during(|| (0..=LAST).for_each(|_| back_off(&object)));
        assert_eq!(met().level.load(Ordering::Relaxed), LAST);
    }

    /// Long after: a level down.
    #[test]
    fn what_was_met_is_remembered_from_call_to_call() {
        let object = 0_u64;
        met().remember(&raw const object as u64, u64::MAX, LAST);
        back_off(&object);
        assert_eq!(met().level.load(Ordering::Relaxed), LAST - 1);
    }
}
