//! Wake-ups that race with a thread that falls asleep: one thread holds a lock, another waits for
//! it, and the holder releases it at about the time at which the waiter falls asleep. There is one
//! release a round and no other thread, so a lost wake-up leaves the waiter asleep: no later one
//! wakes it.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use atomseq::mutex::{MutexBy, TestAndSet};
use verify_support::threads::{state, this_thread};

/// How long a thread is waited for before it counts as lost, if it is asleep then.
const LOST: Duration = Duration::from_secs(3);

/// How often a thread that is awake is waited for so long: on a busy machine it may wait for a CPU.
const TIMES: usize = 100;

/// Cache lines that both threads write, so that the holder's last stores take some time.
#[repr(align(64))]
struct Line(AtomicU64);

/// How many there are.
const LINES: usize = 4;

struct Race {
    round: AtomicU64,
    done: AtomicU64,
    over: AtomicBool,
    /// The thread ID of the waiter.
    waiter: AtomicI32,
    lines: [Line; LINES],
}

impl Race {
    fn new() -> Race {
        Race {
            round: AtomicU64::new(0),
            done: AtomicU64::new(0),
            over: AtomicBool::new(false),
            waiter: AtomicI32::new(0),
            lines: [const { Line(AtomicU64::new(0)) }; LINES],
        }
    }

    fn touch(&self) {
        for line in &self.lines {
            line.0.store(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Runs the waiter, which waits once a round.
    fn wait_each_round(&self, wait: impl Fn()) {
        self.waiter.store(this_thread(), SeqCst);
        for round in 1.. {
            if !until(|| self.round.load(SeqCst) >= round || self.over.load(SeqCst)) {
                continue;
            }
            if self.over.load(SeqCst) {
                return;
            }
            self.touch();
            wait();
            self.done.store(round, SeqCst);
        }
    }

    /// Starts the round of the waiter, and waits about as long as it needs to fall asleep.
    fn begin(&self, round: u64, spins: u32) {
        self.round.store(round, SeqCst);
        (0..fastrand::u32(0..spins)).for_each(|_| std::hint::spin_loop());
        self.touch();
    }

    fn is_done(&self, round: u64) -> bool {
        self.done.load(SeqCst) >= round
    }

    /// Returns whether the waiter sleeps, so that it neither runs nor waits for a CPU.
    fn sleeps(&self) -> bool {
        state(self.waiter.load(SeqCst)) == Some('S')
    }
}

/// Waits until all have completed the round; false if those that have not are asleep, because no
/// thread is left to wake them.
fn are_done(races: &[&Race], round: u64) -> bool {
    let are_done = || races.iter().all(|race| race.is_done(round));
    for _ in 0..TIMES {
        if until(are_done) {
            return true;
        }
        if races
            .iter()
            .all(|race| race.is_done(round) || race.sleeps())
        {
            break;
        }
    }
    are_done()
}

/// Waits for a condition, at most [`LOST`]; returns whether it is true.
fn until(condition: impl Fn() -> bool) -> bool {
    for _ in 0..2_000 {
        if condition() {
            return true;
        }
        std::hint::spin_loop();
    }
    let start = Instant::now();
    while start.elapsed() < LOST {
        if condition() {
            return true;
        }
        thread::yield_now();
    }
    condition()
}

/// The number of spins in which a waiter falls asleep.
const SPINS: u32 = 400;

/// Races the unlocks of a `Mutex` against its waiter.
///
/// # Errors
///
/// The round that left a waiter asleep.
pub fn of_a_mutex<M: TestAndSet + Send + Sync>(rounds: u64) -> Result<(), u64> {
    let (race, lock) = (Race::new(), MutexBy::<M, ()>::new(()));
    thread::scope(|scope| {
        scope.spawn(|| race.wait_each_round(|| drop(lock.lock())));
        let lost = (1..=rounds).find(|round| {
            let held = lock.lock();
            race.begin(*round, SPINS);
            drop(held);
            !are_done(&[&race], *round)
        });
        race.over.store(true, SeqCst);
        while lost.is_some_and(|round| race.done.load(SeqCst) < round) {
            // Another unlock wakes it, so that the thread can exit.
            drop(lock.lock());
            thread::yield_now();
        }
        lost.map_or(Ok(()), Err)
    })
}

/// Does the same with a third thread that times out at about that time. If the wake-up reached that
/// thread, it must wake the waiter.
///
/// # Errors
///
/// The round that left a waiter asleep.
pub fn of_a_mutex_with_a_timeout<M: TestAndSet + Send + Sync>(rounds: u64) -> Result<(), u64> {
    let (race, lock) = (Race::new(), MutexBy::<M, ()>::new(()));
    let other = Race::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            other.wait_each_round(|| {
                drop(lock.try_lock_for(Duration::from_micros(fastrand::u64(0..120))));
            });
        });
        scope.spawn(|| race.wait_each_round(|| drop(lock.lock())));
        let lost = (1..=rounds).find(|round| {
            let held = lock.lock();
            other.begin(*round, 1 + SPINS / 8);
            race.begin(*round, 1 + SPINS / 8);
            thread::sleep(Duration::from_micros(fastrand::u64(0..60)));
            drop(held);
            !are_done(&[&race, &other], *round)
        });
        race.over.store(true, SeqCst);
        other.over.store(true, SeqCst);
        while lost.is_some_and(|round| race.done.load(SeqCst) < round) {
            drop(lock.lock());
            thread::yield_now();
        }
        lost.map_or(Ok(()), Err)
    })
}

/// Races a thread that gives something against one that takes it.
///
/// # Errors
///
/// The round that left it asleep.
pub fn of_pairs(rounds: u64, give: impl Fn(), take: impl Fn() + Sync) -> Result<(), u64> {
    let race = Race::new();
    thread::scope(|scope| {
        scope.spawn(|| race.wait_each_round(&take));
        let lost = (1..=rounds).find(|round| {
            race.begin(*round, SPINS);
            give();
            !are_done(&[&race], *round)
        });
        race.over.store(true, SeqCst);
        if lost.is_some() {
            give();
        }
        lost.map_or(Ok(()), Err)
    })
}
