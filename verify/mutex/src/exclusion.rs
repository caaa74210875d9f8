//! One at a time: threads add to words that only a lock protects.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use lock_api::{Mutex, RawMutex, RawMutexTimed};

/// Two words that are equal whenever nobody holds the lock. Atomics, so that a lock that does not
/// exclude leads to wrong sums and to nothing worse.
#[derive(Debug, Default)]
pub struct Guarded {
    words: [AtomicU64; 2],
    torn: AtomicU64,
    holders: AtomicU64,
}

impl Guarded {
    /// Nothing was added yet.
    pub const fn new() -> Guarded {
        Guarded {
            words: [const { AtomicU64::new(0) }; 2],
            torn: AtomicU64::new(0),
            holders: AtomicU64::new(0),
        }
    }

    /// Somebody has taken the lock: nobody else may hold it.
    pub fn enter(&self) {
        let others = self.holders.fetch_add(1, Relaxed);
        self.torn.fetch_add(others, Relaxed);
    }

    /// Somebody is about to let go of it.
    pub fn leave(&self) {
        self.holders.fetch_sub(1, Relaxed);
    }

    /// Adds one to both words, a load and a store each. `pause` is called in between.
    pub fn add(&self, pause: impl FnOnce()) {
        let [first, second] = [0, 1].map(|word| self.words[word].load(Relaxed));
        if first != second {
            self.torn.fetch_add(1, Relaxed);
        }
        self.words[0].store(first + 1, Relaxed);
        pause();
        self.words[1].store(second + 1, Relaxed);
    }

    /// Was anything lost of so many additions, or seen half done?
    ///
    /// # Errors
    ///
    /// What.
    pub fn judge(&self, additions: u64) -> Result<(), String> {
        let words = [0, 1].map(|word| self.words[word].load(Relaxed));
        let torn = self.torn.load(Relaxed);
        match words == [additions; 2] && torn == 0 {
            true => Ok(()),
            false => Err(format!(
                "{additions} additions, {words:?} counted, {torn} seen half done or with two holders"
            )),
        }
    }
}

/// Threads, more than there are CPUs, lock and add `each` times.
///
/// # Errors
///
/// If anything was lost.
pub fn between_threads<R: RawMutex + Sync>(each: u64) -> Result<(), String> {
    between_threads_by::<R>(each, |lock| {
        lock.lock();
        true
    })
}

/// The same, each with a deadline that may be too early.
///
/// # Errors
///
/// If anything was lost.
pub fn between_threads_in_time<R>(each: u64) -> Result<(), String>
where
    R: RawMutexTimed<Duration = Duration, Instant = Instant> + Sync,
{
    between_threads_by::<R>(each, |lock| {
        lock.try_lock_for(Duration::from_micros(fastrand::u64(0..200)))
    })
}

fn between_threads_by<R: RawMutex + Sync>(
    each: u64,
    acquire: fn(&R) -> bool,
) -> Result<(), String> {
    let threads = 4 * thread::available_parallelism().map_or(1, usize::from) as u64;
    let lock = Mutex::<R, Guarded>::new(Guarded::new());
    let additions = AtomicU64::new(0);
    // SAFETY: only what a guard does is done to it.
    let raw = unsafe { lock.raw() };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for turn in 0..each {
                    if !acquire(raw) {
                        continue;
                    }
                    let preempted = turn % 512 == 0;
                    // SAFETY: the words are atomics.
                    unsafe { &*lock.data_ptr() }.add(|| {
                        if preempted {
                            thread::yield_now();
                        }
                    });
                    additions.fetch_add(1, Relaxed);
                    // SAFETY: this thread has just acquired it.
                    unsafe { raw.unlock() };
                }
            });
        }
    });
    if lock.is_locked() {
        return Err("it is still locked".into());
    }
    lock.into_inner().judge(additions.into_inner())
}
