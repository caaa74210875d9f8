//! Contention: a thread whose change others have forestalled gives way to them, for longer each time that this goes on.
//!
//! Threads on several CPUs that change the same words take the cache lines from each other, and each change of theirs
//! takes several times as long as one thread's alone. It pays that all but one are away for a while: first they
//! spin, then they sleep, so that their CPUs do something else. Nobody waits for anybody: whoever comes back goes on by itself.

use std::time::{Duration, SystemTime};

use crate::sync::{AtomicU32, AtomicU64, Ordering, spin_loop, wait_at_most};

/// A thread that gives way for the first time makes 4 pauses, twice as many at each further level; from this one on it
/// sleeps, twice as long at each.
const FIRST_SLEEP: u64 = 7;
const LAST_SLEEP: u64 = FIRST_SLEEP + 3;
const SHORTEST: Duration = Duration::from_micros(60);

/// Who has to give way again so soon, in nanoseconds, is at the next level; who could go on for longer than FAR, at the one before.
///
/// So threads that do something else between their changes, and meet now and then, hardly ever sleep. Measured with two threads on two CPUs,
/// with 0.7 µs of something else between two pairs on a stack: together they made 1.8 to 1.9 times as many as one alone; when whoever was
/// forestalled twice in 1,024 changes was at the next level, 1.0 times, since they slept most of the time. With nothing else between, 1.0
/// times. With 32 threads that do nothing else, CPU time an operation beside one thread's: 1.0 to 1.2; without sleep 4.4.
const NEAR: u64 = 1_000;
const FAR: u64 = 4 * NEAR;

/// What this thread has met last. A handler that comes in between leaves numbers that belong together less: then it is away for
/// another time.
struct Met {
    object: AtomicU64,
    /// When it came back from giving way, in nanoseconds.
    back: AtomicU64,
    level: AtomicU64,
}

/// Gives way to those who have changed an object. It may sleep: for half a millisecond at most, or until a signal comes.
#[cold]
pub(super) fn give_way<T>(object: &T) {
    let met = met();
    let address = &raw const *object as u64;
    let level = met.next_level(address, nanoseconds());
    match level.checked_sub(FIRST_SLEEP) {
        None => (0..4 << level).for_each(|_| spin_loop()),
        // Nobody changes this word, or wakes those who wait for it.
        Some(level) => {
            wait_at_most(&AtomicU32::new(0), 0, SHORTEST * (1 << level));
        }
    }
    met.remember(address, nanoseconds(), level);
}

/// The time. A clock that is set meanwhile is mistaken once. (It is read without a lock, in handlers as well.)
fn nanoseconds() -> u64 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    time.map_or(0, |time| time.as_nanos() as u64)
}

// Relaxed, all of them: they are this thread's own.
impl Met {
    fn next_level(&self, object: u64, now: u64) -> u64 {
        if self.object.load(Ordering::Relaxed) != object {
            return 0;
        }
        let level = self.level.load(Ordering::Relaxed);
        match now.wrapping_sub(self.back.load(Ordering::Relaxed)) {
            0..NEAR => LAST_SLEEP.min(level + 1),
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
    // SAFETY: it is there from the thread's first instruction to its last, and the caller does not give it away.
    unsafe { &*address }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn contention_that_goes_on_makes_a_thread_sleep() {
        assert_eq!(level_after(FIRST_SLEEP, NEAR - 1), FIRST_SLEEP - 1);
        assert_eq!(level_after(FIRST_SLEEP + 1, NEAR - 1), FIRST_SLEEP);
        assert_eq!(
            level_after(100, NEAR - 1),
            LAST_SLEEP,
            "no longer than that"
        );
    }

    #[test]
    fn who_had_the_words_for_a_while_does_not_sleep() {
        assert_eq!(level_after(100, FAR), 0);
        assert_eq!(level_after(100, NEAR), 0, "it stays at a level");
    }

    /// Every third time soon again: from the highest level it comes down, and stays there.
    #[test]
    fn who_meets_others_now_and_then_does_not_sleep() {
        let met = Met {
            object: AtomicU64::new(OBJECT),
            back: AtomicU64::new(0),
            level: AtomicU64::new(LAST_SLEEP),
        };
        let mut now = 0;
        for time in 0..300 {
            now += if time % 3 == 0 { NEAR / 2 } else { FAR };
            met.remember(OBJECT, now, met.next_level(OBJECT, now));
        }
        assert!(met.level.load(Ordering::Relaxed) <= 1);
    }

    #[test]
    fn a_sleep_is_no_shorter_and_ends() {
        let object = 0_u64;
        let address = &raw const object as u64;
        met().remember(address, u64::MAX, FIRST_SLEEP + 1);
        // Long after: a level down, to the first at which it sleeps.
        let start = std::time::Instant::now();
        give_way(&object);
        assert!(start.elapsed() >= SHORTEST);
        assert_eq!(met().level.load(Ordering::Relaxed), FIRST_SLEEP);
    }
}
