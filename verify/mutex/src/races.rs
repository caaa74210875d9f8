//! A wake-up that races with who it is for: one thread holds a lock, another comes for it, and the
//! holder lets go at just about the time at which the other goes to sleep. It does so once a round,
//! and nobody else does, so a wake-up that is lost is missed for ever: no later one heals it.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use atomseq::mutex::{Mutex, TestAndSet};
use verify_support::threads::{state, this_thread};

/// How long a thread is waited for until it counts as lost, if it is asleep then.
const LOST: Duration = Duration::from_secs(3);

/// How often one that is awake is waited for so long: a busy machine may keep it waiting for a CPU.
const TIMES: usize = 100;

/// Cache lines that either side writes to, so that the holder's last stores take their time.
#[repr(align(64))]
struct Line(AtomicU64);

/// How many there are.
const LINES: usize = 4;

struct Race {
    round: AtomicU64,
    done: AtomicU64,
    over: AtomicBool,
    /// The other thread, as the kernel calls it.
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

    /// The other thread: waits once a round.
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

    /// Lets the other one begin, and waits about as long as that takes to fall asleep.
    fn begin(&self, round: u64, spins: u32) {
        self.round.store(round, SeqCst);
        (0..fastrand::u32(0..spins)).for_each(|_| std::hint::spin_loop());
        self.touch();
    }

    fn is_done(&self, round: u64) -> bool {
        self.done.load(SeqCst) >= round
    }

    /// Does the other thread sleep, neither running nor waiting for a CPU?
    fn sleeps(&self) -> bool {
        state(self.waiter.load(SeqCst)) == Some('S')
    }
}

/// Are all done with the round? Not if those that are not sleep: nobody is left to wake them.
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

/// Waits for it, a few seconds at most, for as long as the other thread might be kept from running.
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

/// How many spins cover the time in which a waiter falls asleep.
const SPINS: u32 = 400;

/// Races unlocks of a [`Mutex`] against waiters.
///
/// # Errors
///
/// The round in which a waiter was left asleep.
pub fn of_a_mutex<M: TestAndSet + Send + Sync>(rounds: u64) -> Result<(), u64> {
    let (race, lock) = (Race::new(), Mutex::<(), M>::new(()));
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
            // Another unlock heals it, so that the thread can end.
            drop(lock.lock());
            thread::yield_now();
        }
        lost.map_or(Ok(()), Err)
    })
}

/// The same, with a third thread that gives up about then: if it was woken, it must see to it that
/// the other is.
///
/// # Errors
///
/// The round in which a waiter was left asleep.
pub fn of_a_mutex_with_one_who_gives_up<M: TestAndSet + Send + Sync>(
    rounds: u64,
) -> Result<(), u64> {
    let (race, lock) = (Race::new(), Mutex::<(), M>::new(()));
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

/// Races a thread that gives something against one that comes to take it.
///
/// # Errors
///
/// The round in which it was left asleep.
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
