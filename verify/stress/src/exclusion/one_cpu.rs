//! Threads of one CPU, whose sections another CPU's fences abort all the time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use atomseq_papers::reservation::{Bundle, OneCpu};
use lock_api::RawMutex;

use super::section::Section;
use super::watch::{self, Progress};
use super::{Figures, goes_on};
use crate::torment::{self, Victim};

/// How many threads share the CPU.
const THREADS: usize = 4;

/// The threads of one trial, for mechanisms that ask for a promise.
pub struct Pinned;

// SAFETY: the threads of `run` alone use such mechanisms, one trial a process, and each is on that
// trial's CPU by then. Nobody else has this bundle.
unsafe impl OneCpu for Pinned {
    fn bundle() -> &'static Bundle {
        static BUNDLE: Bundle = Bundle::new();
        &BUNDLE
    }
}

/// A lock that threads of one CPU share.
struct Shared<R>(lock_api::Mutex<R, Section>);

// SAFETY: the threads of `run` alone reach it, and each has told the kernel to run it on the same
// CPU only, and been told that it does, before it touches the lock.
unsafe impl<R> Sync for Shared<R> {}

/// Takes one lock so many times.
pub fn run<R: RawMutex>(operations: u64) -> Figures {
    // Starts the library: fences are for processes that are registered for them.
    atomseq::status();
    let start = Instant::now();
    let cpus = torment::cpus();
    let cpu = cpus[0];
    let shared = Shared(lock_api::Mutex::<R, Section>::new(Section::default()));
    let progress: Vec<Progress> = (0..THREADS).map(|_| Progress::default()).collect();
    let over = AtomicBool::new(false);
    let share = operations.div_ceil(THREADS as u64);
    let (worked, fences) = thread::scope(|scope| {
        let fencing = scope.spawn(|| fence_until(&over, cpu, &cpus));
        let working = progress
            .iter()
            .map(|progress| scope.spawn(|| work(&shared, cpu, progress, start, share)));
        let worked = watch::join(working.collect(), &progress);
        over.store(true, Ordering::Relaxed);
        (worked, fencing.join().expect("the fence"))
    });
    let by_threads = worked.iter().map(|(operations, _)| operations).sum();
    let wrong: u64 = worked.iter().map(|(_, wrong)| wrong).sum();
    Figures {
        by_threads,
        wrong: wrong + shared.0.into_inner().wrong(by_threads),
        disturbances: fences,
        time: start.elapsed(),
        ..Figures::default()
    }
}

/// Keeps the calling thread on a CPU.
pub fn stay_on(cpu: usize) {
    let this = Victim::default();
    this.volunteer(0);
    assert!(this.move_to(&[cpu]), "CPU {cpu} is not to be had");
}

/// Returns how many acquisitions there were, and how often something was half done.
fn work<R: RawMutex>(
    shared: &Shared<R>,
    cpu: usize,
    progress: &Progress,
    start: Instant,
    operations: u64,
) -> (u64, u64) {
    stay_on(cpu);
    let mut wrong = 0;
    let mut operation = 0;
    while goes_on(start, operation, operations) {
        wrong += u64::from(!shared.0.lock().add());
        operation += 1;
        progress.set(operation);
    }
    (operation, wrong)
}

/// From another CPU, if there is one.
fn fence_until(over: &AtomicBool, cpu: usize, cpus: &[usize]) -> u64 {
    const PRIVATE_EXPEDITED_RSEQ: libc::c_int = 1 << 7;
    const FLAG_CPU: libc::c_int = 1;
    let other = cpus.iter().find(|other| **other != cpu);
    stay_on(*other.unwrap_or(&cpu));
    let mut fences = 0;
    while !over.load(Ordering::Relaxed) {
        // SAFETY: the command takes a CPU's number and touches no memory of ours; where there is no
        // such fence, it says so.
        let result =
            unsafe { libc::syscall(libc::SYS_membarrier, PRIVATE_EXPEDITED_RSEQ, FLAG_CPU, cpu) };
        fences += u64::from(result == 0);
        (0..fastrand::u32(..2_000)).for_each(|_| std::hint::spin_loop());
        if other.is_none() {
            thread::yield_now();
        }
    }
    fences
}
