//! Contention: a thread whose change others have forestalled gives way to them, for longer each time that this goes on.
//!
//! Threads on several CPUs that change the same words take the cache lines from each other, and each change of theirs
//! takes several times as long as one thread's alone. It pays that all but one are away for a while: first they
//! spin, then they sleep, so that their CPUs do something else. Nobody waits for anybody: whoever comes back goes on by itself.

use std::time::Duration;

use crate::sync::{AtomicU32, AtomicU64, Ordering, spin_loop, wait_at_most};

/// A thread that gives way for the first time makes 4 pauses, twice as many at each further level; from this one on it
/// sleeps, twice as long at each.
const FIRST_SLEEP: u64 = 7;
const LAST_SLEEP: u64 = FIRST_SLEEP + 3;
const SHORTEST: Duration = Duration::from_micros(60);

/// To give way again after fewer changes than these is the same contention: they took less time than to give way. Otherwise the
/// thread has had the words to itself for a while, and begins with the lowest level again.
///
/// Measured with 32 threads on 2 CPUs that add to two words (CPU time an operation, beside one thread's): 64 and no sleep 4.4, 64
/// and sleep 1.2 to 1.9, 1024 and sleep 0.9 to 1.5; sleeping twice as long gains nothing more.
const NEAR: u64 = 1024;

/// What this thread has met last. A handler that comes in between leaves numbers that belong together less: then it is away for
/// another time.
struct Met {
    object: AtomicU64,
    version: AtomicU64,
    level: AtomicU64,
}

/// Gives way to those who have changed an object. It may sleep: for half a millisecond at most, or until a signal comes.
#[cold]
pub(super) fn give_way<T>(object: &T, version: impl Fn(&T) -> u64) {
    let met = met();
    let address = &raw const *object as u64;
    let level = met.next_level(address, version(object));
    match level.checked_sub(FIRST_SLEEP) {
        None => (0..4 << level).for_each(|_| spin_loop()),
        // Nobody changes this word, or wakes those who wait for it.
        Some(level) => wait_at_most(&AtomicU32::new(0), 0, SHORTEST * (1 << level)),
    }
    met.remember(address, version(object), level);
}

// Relaxed, all of them: they are this thread's own.
impl Met {
    fn next_level(&self, object: u64, version: u64) -> u64 {
        let is_same = self.object.load(Ordering::Relaxed) == object;
        let since = version.wrapping_sub(self.version.load(Ordering::Relaxed));
        match self.level.load(Ordering::Relaxed) {
            level if is_same && since < NEAR => LAST_SLEEP.min(level + 1),
            _ => 0,
        }
    }

    fn remember(&self, object: u64, version: u64, level: u64) {
        self.object.store(object, Ordering::Relaxed);
        self.version.store(version, Ordering::Relaxed);
        self.level.store(level, Ordering::Relaxed);
    }
}

/// This thread's.
fn met() -> &'static Met {
    let address = crate::__thread_storage!(
        Met,
        Met {
            object: AtomicU64::new(0),
            version: AtomicU64::new(0),
            level: AtomicU64::new(0),
        }
    );
    // SAFETY: it is there from the thread's first instruction to its last, and the caller does not give it away.
    unsafe { &*address }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::time::Instant;

    /// An object whose version moves on by so many whenever it is looked at.
    struct Moving {
        version: Cell<u64>,
        step: u64,
    }

    impl Moving {
        fn by(step: u64) -> Moving {
            let version = Cell::new(1);
            Moving { version, step }
        }

        /// The level that the thread is at after giving way so often.
        fn level_after(&self, times: u64) -> u64 {
            for _ in 0..times {
                give_way(self, |object| {
                    object.version.replace(object.version.get() + object.step)
                });
            }
            met().level.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn contention_that_goes_on_makes_a_thread_sleep() {
        let object = Moving::by(NEAR - 1);
        assert_eq!(object.level_after(FIRST_SLEEP), FIRST_SLEEP - 1);
        let start = Instant::now();
        assert_eq!(object.level_after(1), FIRST_SLEEP);
        assert!(start.elapsed() >= SHORTEST);
        assert_eq!(object.level_after(100), LAST_SLEEP, "no longer than that");
    }

    #[test]
    fn who_had_the_words_for_a_while_does_not_sleep() {
        assert_eq!(Moving::by(NEAR).level_after(100), 0);
    }

    #[test]
    fn another_object_is_another_contention() {
        let objects = [0, 1].map(|_| Moving::by(1));
        assert!(objects[0].level_after(3) > 0);
        assert_eq!(objects[1].level_after(1), 0);
    }
}
