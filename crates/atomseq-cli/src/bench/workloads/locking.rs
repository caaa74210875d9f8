//! What the lock experiments share: a count that is only right if its lock excludes, and the time
//! that a lock is held.

use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::bench::engine::Subject;
use crate::bench::fault::Fault;

/// A count that loses additions of threads that nothing excludes from each other: it is loaded, and
/// then stored.
#[derive(Debug, Default)]
pub struct Tally(AtomicU64);

impl Tally {
    /// Counts one more.
    #[inline(always)]
    pub fn count(&self) {
        // Relaxed twice, and apart: ordering and exclusion are the lock's task.
        let counted = self.0.load(Ordering::Relaxed);
        self.0.store(counted + 1, Ordering::Relaxed);
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        // Relaxed: read after the threads have met at the crew's mutex.
        self.0.load(Ordering::Relaxed)
    }

    /// Whether there are that many.
    pub fn expect(&self, expected: u64) -> Result<(), Fault> {
        let total = self.total();
        if total == expected {
            return Ok(());
        }
        let sentence = format!("{total} of {expected} critical sections were counted");
        Err(Fault::count(expected, [total], sentence))
    }
}

/// A lock around a tally.
pub trait Exclusive {
    /// Does `work` while no other thread that the lock's type admits does any.
    fn with(&self, work: impl FnOnce(&Tally));
}

/// For how long a lock is held after counting: a number of rounds of [`Hold::spin`].
#[derive(Clone, Copy, Debug)]
pub struct Hold(u64);

impl Hold {
    /// Not at all.
    pub const NONE: Self = Self(0);

    /// About so long, once this machine is known.
    pub fn of(duration: Duration) -> Self {
        Self((duration.as_secs_f64() * rounds_a_second()) as u64)
    }

    /// Passes the time without yielding and without a memory access that slows others down.
    #[inline(always)]
    pub fn spin(self) {
        let mut value = 1_u64;
        for _ in 0..self.0 {
            value = black_box(value.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        }
    }
}

/// How many rounds of spinning a second holds: the fastest of several tries, for any disturbance
/// makes one slower.
fn rounds_a_second() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        const ROUNDS: u64 = 10_000;
        let once = || {
            let start = Instant::now();
            Hold(ROUNDS).spin();
            start.elapsed()
        };
        let fastest = (0..200).map(|_| once()).min().unwrap_or_default();
        ROUNDS as f64 / fastest.as_secs_f64().max(1e-9)
    })
}

/// All threads enter one lock again and again.
pub struct Contention<L> {
    lock: CachePadded<L>,
    hold: Hold,
    /// How many threads share the operations of one.
    sharers: u64,
}

impl<L: Exclusive + Default + Sync + 'static> Contention<L> {
    /// A lock of which every thread does all operations.
    pub fn boxed(hold: Hold) -> Box<dyn Subject> {
        Self::shared(hold, 1)
    }

    /// A lock of which that many threads share the operations of one: for threads of one CPU, of
    /// which only one runs at a time.
    pub fn shared(hold: Hold, sharers: u64) -> Box<dyn Subject> {
        let lock = CachePadded::default();
        Box::new(Self {
            lock,
            hold,
            sharers,
        })
    }
}

impl<L: Exclusive + Sync> Subject for Contention<L> {
    /// A lock that spins in turn may be slower a thousand times, once its threads wait for a CPU.
    fn may_end_early(&self) -> bool {
        true
    }

    fn run(&self, _thread: usize, operations: u64) {
        for _ in 0..operations / self.sharers {
            self.lock.with(|tally| {
                tally.count();
                self.hold.spin();
            });
        }
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        let mut result = Ok(());
        self.lock
            .with(|tally| result = tally.expect(operations / self.sharers));
        result
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::bench::engine::GRAIN;

    /// Excludes no thread.
    #[derive(Default)]
    struct Open(Tally);

    impl Exclusive for Open {
        fn with(&self, work: impl FnOnce(&Tally)) {
            work(&self.0);
        }
    }

    #[test]
    fn a_lock_without_exclusion_is_found() {
        let mut lost = None;
        // One round may be lucky; a hundred are not.
        for _ in 0..100 {
            let case = Contention::<Open>::boxed(Hold::NONE);
            let operations = 4_096 * GRAIN;
            thread::scope(|scope| {
                for thread in 0..4 {
                    let subject = &case;
                    scope.spawn(move || subject.run(thread, operations));
                }
            });
            lost = case.check(4 * operations).err();
            if lost.is_some() {
                break;
            }
        }
        assert!(
            lost.is_some_and(|fault| fault.sentence.contains("critical sections were counted"))
        );
    }

    #[test]
    fn sharers_do_the_operations_of_one() {
        let case = Contention::<Open>::shared(Hold::NONE, 2);
        case.run(0, GRAIN);
        case.run(1, GRAIN);
        assert_eq!(case.check(2 * GRAIN), Ok(()));
        assert!(case.check(4 * GRAIN).is_err());
    }

    #[test]
    fn a_lock_is_held_for_about_as_long_as_it_should() {
        let fastest = |wanted| {
            let hold = Hold::of(wanted);
            let once = || {
                let start = Instant::now();
                hold.spin();
                start.elapsed()
            };
            (0..1_000).map(|_| once()).min().unwrap()
        };
        let wanted = Duration::from_micros(20);
        let (short, long) = (fastest(wanted), fastest(wanted * 4));
        // Other tests on the same core slow it, more now than when the machine was looked at.
        assert!(
            wanted / 2 < short && short < wanted * 5,
            "{short:?} for {wanted:?}"
        );
        assert!(
            short * 2 < long && long < short * 8,
            "four times {short:?} are {long:?}"
        );
    }
}
