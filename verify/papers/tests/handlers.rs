//! Reservation in signal handlers: for Lamport's algorithm the handler is the thread that it
//! interrupts.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;

use atomseq::mutex::TestAndSet;
use atomseq::signal::{self, Event};
use atomseq_papers::reservation::{Bundled, PerLock, register};
use verify_support::processes::in_fresh_process;
use verify_support::this_test;

static PER_LOCK: Guarded<PerLock> = Guarded::new(PerLock::CLEAR);
static BUNDLED: Guarded<Bundled> = Guarded::new(Bundled::CLEAR);

/// A variable, and whether a thread holds it.
struct Guarded<M> {
    flag: M,
    held: AtomicU32,
    times: AtomicU64,
}

impl<M: TestAndSet> Guarded<M> {
    const fn new(flag: M) -> Guarded<M> {
        Guarded {
            flag,
            held: AtomicU32::new(0),
            times: AtomicU64::new(0),
        }
    }

    fn attempt(&self) {
        if self.flag.test_and_set() {
            assert_eq!(self.held.swap(1, SeqCst), 0, "two hold {}", M::NAME);
            std::hint::spin_loop();
            self.held.store(0, SeqCst);
            // SAFETY: this thread or handler set it.
            unsafe { self.flag.clear() };
            self.times.fetch_add(1, SeqCst);
        }
    }
}

fn attempt_both() {
    PER_LOCK.attempt();
    BUNDLED.attempt();
}

static RUNS: AtomicU32 = AtomicU32::new(0);

fn handler(_event: &mut Event<'_>) {
    attempt_both();
    RUNS.fetch_add(1, SeqCst);
}

#[test]
fn handlers_may_try() {
    in_fresh_process(this_test!(), || {
        static DONE: AtomicBool = AtomicBool::new(false);
        static ROUNDS: AtomicU32 = AtomicU32::new(0);
        register().unwrap();
        // SAFETY: the handler does test-and-sets, on a registered thread, and ends the process
        // where one fails.
        unsafe { signal::install(libc::SIGUSR1, handler) }.unwrap();
        // SAFETY: this thread, which outlives the others.
        let this = unsafe { libc::pthread_self() };
        thread::scope(|scope| {
            scope.spawn(|| {
                while !DONE.load(SeqCst) {
                    attempt_both();
                }
            });
            scope.spawn(move || {
                // A handler takes longer than a round: without a pause between handlers the rounds
                // would make no progress.
                for rest in (1..100).cycle() {
                    let (runs, rounds) = (RUNS.load(SeqCst), ROUNDS.load(SeqCst));
                    // SAFETY: the thread is still running.
                    unsafe { libc::pthread_kill(this, libc::SIGUSR1) };
                    while RUNS.load(SeqCst) == runs || ROUNDS.load(SeqCst) < rounds + rest {
                        if DONE.load(SeqCst) {
                            return;
                        }
                        thread::yield_now();
                    }
                }
            });
            while RUNS.load(SeqCst) < 1_000 || ROUNDS.load(SeqCst) < 100_000 {
                attempt_both();
                ROUNDS.fetch_add(1, SeqCst);
            }
            DONE.store(true, SeqCst);
        });
        for times in [&PER_LOCK.times, &BUNDLED.times] {
            assert!(times.load(SeqCst) > 1_000);
        }
    });
}
