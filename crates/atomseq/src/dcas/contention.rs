//! Contention on versioned words: a thread whose change lost to another thread's backs off, for
//! longer each time that this repeats.
//!
//! Threads on several CPUs that change the same words take the cache lines from each other, and
//! each change takes several times as long as one thread's alone. It pays if all threads but one
//! stay away for a while. They first spin, then yield the CPU to any thread that is ready to run on
//! it. No thread waits for another: each returns from the pause by itself. No thread sleeps,
//! because another may poll for the very change that the sleeper was about to make.

use crate::clock;
use crate::sync::{AtomicU64, Ordering, spin_loop};

/// The last level. A thread backs off by 4 pauses at level 0, and by twice as many at each further
/// level; at the last level it yields.
const LAST: u64 = 7;

/// Times in nanoseconds. A thread that must back off again within NEAR of its last return goes to
/// the next level. One that made progress for longer than FAR goes to the level before.
///
/// Measured on four busy CPUs, a producer and a consumer that poll lists with at most 16 values
/// under way, lower quartiles of 40 runs: 0.2 to 0.5 µs a value in most rounds; with sleeps of 60
/// to 480 µs instead of yields, 6 to 68 µs. The CPU time per operation of 32 threads that did
/// nothing else was lower than with the sleeps in 11 of 12 interleaved comparisons.
const NEAR: u64 = 1_000;
const FAR: u64 = 4 * NEAR;

/// The contention that this thread met last. If a handler interrupts an update, the fields may not
/// match each other; then one pause is shorter or longer.
struct LastContention {
    object: AtomicU64,
    /// The time at which the thread returned from backing off, in nanoseconds.
    back: AtomicU64,
    level: AtomicU64,
}

/// Backs off from the threads that have changed an object. May yield the CPU.
#[cold]
pub(super) fn back_off<T>(object: &T) {
    let last = last_contention();
    let address = &raw const *object as u64;
    let level = last.next_level(address, nanoseconds());
    match level {
        LAST => std::thread::yield_now(),
        level => (0..4 << level).for_each(|_| spin_loop()),
    }
    last.remember(address, nanoseconds(), level);
}

/// Returns the time, or always 0 where the system does not provide it. Then contention seems to
/// persist, and the thread yields in the end.
fn nanoseconds() -> u64 {
    clock::now().map_or(0, |time| time.as_nanos() as u64)
}

// Relaxed throughout: only this thread and its handlers access these words.
impl LastContention {
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

/// Returns this thread's record.
fn last_contention() -> &'static LastContention {
    let address = crate::__thread_storage!(
        LastContention,
        LastContention {
            object: AtomicU64::new(0),
            back: AtomicU64::new(0),
            level: AtomicU64::new(0),
        }
    );
    // SAFETY: the storage lives from the thread's first instruction to its last, and no caller
    // passes the reference to another thread.
    unsafe { &*address }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::refusal;

    const OBJECT: u64 = 0x1000;

    /// Returns the level of a thread that has backed off `times` times, each `apart` nanoseconds
    /// after its last return.
    fn level_after(times: u64, apart: u64) -> u64 {
        let last = LastContention {
            object: AtomicU64::new(0),
            back: AtomicU64::new(0),
            level: AtomicU64::new(0),
        };
        for time in 1..=times {
            let now = time * apart;
            last.remember(OBJECT, now, last.next_level(OBJECT, now));
        }
        assert_eq!(last.next_level(OBJECT + 64, times * apart), 0);
        last.level.load(Ordering::Relaxed)
    }

    #[test]
    fn contention_that_goes_on_makes_a_thread_yield() {
        assert_eq!(level_after(LAST, NEAR - 1), LAST - 1);
        assert_eq!(level_after(LAST + 1, NEAR - 1), LAST);
        assert_eq!(level_after(100, NEAR - 1), LAST, "there is no further");
    }

    #[test]
    fn a_thread_that_makes_progress_does_not_yield() {
        assert_eq!(level_after(100, FAR), 0);
        assert_eq!(level_after(100, NEAR), 0, "it stays at a level");
    }

    /// Every third contention comes soon after the last. The level sinks from the highest and stays
    /// low.
    #[test]
    fn a_thread_that_meets_occasional_contention_does_not_yield() {
        let last = LastContention {
            object: AtomicU64::new(OBJECT),
            back: AtomicU64::new(0),
            level: AtomicU64::new(LAST),
        };
        let mut now = 0;
        for time in 0..300 {
            now += if time % 3 == 0 { NEAR / 2 } else { FAR };
            last.remember(OBJECT, now, last.next_level(OBJECT, now));
        }
        assert!(last.level.load(Ordering::Relaxed) <= 1);
    }

    /// This may run in a handler or a destructor, where a panic would end the process.
    #[test]
    fn a_thread_without_a_clock_yields_in_the_end() {
        let object = 0_u64;
        refusal::during(|| (0..=LAST).for_each(|_| back_off(&object)));
        assert_eq!(last_contention().level.load(Ordering::Relaxed), LAST);
    }

    /// The last contention was long ago: the level sinks by one.
    #[test]
    fn what_was_met_is_remembered_from_call_to_call() {
        let object = 0_u64;
        last_contention().remember(&raw const object as u64, u64::MAX, LAST);
        back_off(&object);
        assert_eq!(last_contention().level.load(Ordering::Relaxed), LAST - 1);
    }
}
