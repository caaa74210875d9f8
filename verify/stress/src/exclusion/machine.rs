//! More threads than CPUs, which are moved from one to another all the time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lock_api::RawMutex;

use super::section::Section;
use super::watch::{self, Progress};
use super::{Figures, goes_on};
use crate::torment::{self, Victim};

/// Takes one lock so many times.
pub fn run<R: RawMutex + Send + Sync>(operations: u64) -> Figures {
    let cpus = torment::cpus();
    run_with::<R>(operations, (2 * cpus.len() + 2).min(16), &cpus)
}

/// The same with so many threads, on these CPUs.
pub fn run_with<R: RawMutex + Send + Sync>(
    operations: u64,
    threads: usize,
    cpus: &[usize],
) -> Figures {
    // Starts the library: fences are for processes that are registered for them.
    atomseq::status();
    let start = Instant::now();
    let lock = lock_api::Mutex::<R, Section>::new(Section::default());
    let progress: Vec<Progress> = (0..threads).map(|_| Progress::default()).collect();
    let victims: Vec<Victim> = (0..threads).map(|_| Victim::default()).collect();
    let over = AtomicBool::new(false);
    let share = operations.div_ceil(threads as u64);
    let (worked, moves) = thread::scope(|scope| {
        let moving = scope.spawn(|| move_until(&over, &victims, cpus));
        let working = victims
            .iter()
            .zip(&progress)
            .map(|(victim, progress)| scope.spawn(|| work(&lock, victim, progress, start, share)));
        let worked = watch::join(working.collect(), &progress);
        over.store(true, Ordering::Relaxed);
        (worked, moving.join().expect("the mover"))
    });
    let by_threads = worked.iter().map(|(operations, _)| operations).sum();
    let wrong: u64 = worked.iter().map(|(_, wrong)| wrong).sum();
    Figures {
        by_threads,
        wrong: wrong + lock.into_inner().wrong(by_threads),
        disturbances: moves,
        time: start.elapsed(),
        ..Figures::default()
    }
}

/// Returns how many acquisitions there were, and how often something was half done.
fn work<R: RawMutex>(
    lock: &lock_api::Mutex<R, Section>,
    victim: &Victim,
    progress: &Progress,
    start: Instant,
    operations: u64,
) -> (u64, u64) {
    victim.volunteer(0);
    let mut wrong = 0;
    let mut operation = 0;
    while goes_on(start, operation, operations) {
        wrong += u64::from(!lock.lock().add());
        operation += 1;
        progress.set(operation);
    }
    victim.resign();
    (operation, wrong)
}

fn move_until(over: &AtomicBool, victims: &[Victim], cpus: &[usize]) -> u64 {
    let mut moves = 0;
    while !over.load(Ordering::Relaxed) {
        let victim = &victims[fastrand::usize(..victims.len())];
        let cpu = cpus[fastrand::usize(..cpus.len())];
        moves += u64::from(victim.move_to(&[cpu]));
        thread::sleep(Duration::from_micros(fastrand::u64(..200)));
    }
    moves
}
