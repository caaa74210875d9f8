//! No waiter sleeps indefinitely: wake-ups race with falling asleep. The control omits the barriers
//! that pair the two.
#![cfg(target_os = "linux")]

use std::sync::{Mutex as StdMutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use atomseq::mutex::{
    BiasedFlag, Condvar, Counted, Interlocked, Mutex, OnCpu, Semaphore, TestAndSet,
};
use verify_mutex::{Unpaired, races};
use verify_support::number_from_env;

/// Returns the number of races of each kind: a million is their full length.
fn rounds() -> u64 {
    number_from_env("ATOMSEQ_MUTEX_RACES", 5_000)
}

/// Serializes the tests: both threads of a race need a CPU at once.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: StdMutex<()> = StdMutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lost(round: u64) -> ! {
    panic!("asleep indefinitely since round {round}");
}

fn of<M: TestAndSet + Send + Sync>(rounds: u64) {
    let _alone = alone();
    races::of_a_mutex::<M>(rounds).unwrap_or_else(|round| lost(round));
    // Fewer rounds: it sleeps for microseconds between its steps.
    races::of_a_mutex_with_a_timeout::<M>(rounds / 20).unwrap_or_else(|round| lost(round));
}

#[test]
fn of_a_mutex() {
    of::<Interlocked>(rounds());
    of::<Counted<Interlocked>>(rounds() / 10);
}

/// The waiter's barrier of these mechanisms is a system call.
#[test]
fn of_a_biased_mutex() {
    of::<BiasedFlag>(rounds() / 10);
    of::<OnCpu>(rounds() / 10);
}

#[test]
fn of_a_semaphore() {
    let _alone = alone();
    let permits = Semaphore::new(0);
    races::of_pairs(
        rounds(),
        || permits.release().unwrap(),
        || permits.acquire().forget(),
    )
    .unwrap_or_else(|round| lost(round));
}

#[test]
fn of_a_condition_variable() {
    let _alone = alone();
    let (arrivals, arrived) = (Mutex::<u64>::new(0), Condvar::new());
    races::of_pairs(
        rounds(),
        || {
            *arrivals.lock() += 1;
            arrived.notify_one();
        },
        || {
            let mut arrivals = arrivals.lock();
            arrived.wait_while(&mut arrivals, |arrivals| *arrivals == 0);
            *arrivals -= 1;
        },
    )
    .unwrap_or_else(|round| lost(round));
}

/// On x86-64, the holder's load can pass its store. On one CPU, it cannot.
#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "both threads must be within a few instructions of each other: that takes a release build, as in .ci/run"
)]
fn a_lock_that_loses_wake_ups_is_detected() {
    let _alone = alone();
    if available_parallelism().map_or(1, usize::from) == 1 {
        println!("does not apply: one CPU sees its own stores in order");
        return;
    }
    // A waiter that yields before it sleeps seldom falls asleep at that moment.
    let usual = atomseq::internals::set_pauses(0);
    let lost = races::of_a_mutex::<Unpaired>(50_000_000);
    atomseq::internals::set_pauses(usual);
    let round = lost.expect_err("no wake-up was lost");
    println!("asleep since round {round}, until another unlock");
}
