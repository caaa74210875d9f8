//! Reservation: numbers for threads, and handlers. Registration fails with an error when the
//! numbers run out, and they are reused.

use std::sync::Barrier;
use std::thread;

use atomseq::mutex::TestAndSet;
use atomseq_papers::reservation::{Bundled, Fenced, PerLock, THREADS, TooManyThreads, register};

/// One test, since the numbers belong to the process.
#[test]
fn numbers_run_out_and_come_back() {
    let (have, leave) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                register().unwrap();
                have.wait();
                leave.wait();
            });
        }
        have.wait();
        assert_eq!(register(), Err(TooManyThreads));
        let flag = PerLock::<Fenced>::CLEAR;
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| flag.test_and_set()));
        let sentence = *panic.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(sentence, TooManyThreads.to_string());
        assert!(
            sentence.contains("let some of them end first"),
            "{sentence}"
        );
        assert!(!flag.is_set(), "nothing happened");
        leave.wait();
    });
    // The threads exit after the scope does: their last action releases their numbers.
    while register().is_err() {
        thread::yield_now();
    }
    let flag = PerLock::<Fenced>::CLEAR;
    assert!(flag.test_and_set());

    more_threads_than_numbers_one_after_the_other();
    a_thread_that_ends_still_may(&flag);
}

fn more_threads_than_numbers_one_after_the_other() {
    let flag = Bundled::<Fenced>::CLEAR;
    for _ in 0..2 * THREADS {
        let set = thread::scope(|scope| scope.spawn(|| flag.test_and_set()).join().unwrap());
        assert!(set);
        // SAFETY: the thread that set it has exited, and handed it over.
        unsafe { flag.clear() };
    }
}

/// Destructors of thread-local values run when the number may have been released.
fn a_thread_that_ends_still_may(held: &PerLock) {
    struct Last;
    impl Drop for Last {
        fn drop(&mut self) {
            let flag = PerLock::<Fenced>::CLEAR;
            for _ in 0..2 {
                assert!(flag.test_and_set());
                // SAFETY: set above.
                unsafe { flag.clear() };
            }
        }
    }
    thread_local! {
        static FIRST: Last = const { Last };
        static SECOND: Last = const { Last };
    }
    for _ in 0..2 * THREADS {
        thread::scope(|scope| {
            scope.spawn(|| {
                // One runs before the number's destructor, one after it.
                FIRST.with(|_| ());
                assert!(!held.test_and_set());
                SECOND.with(|_| ());
            });
        });
    }
    assert_eq!(register(), Ok(()), "none was lost");
}

/// Handlers: for Lamport's algorithm, a handler is the thread that it interrupts.
#[cfg(target_os = "linux")]
mod handlers {
    use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};

    use atomseq::signal::{self, Event};
    use verify_support::processes::in_fresh_process;
    use verify_support::this_test;

    use super::*;

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
                    // A handler takes longer than a round: without a pause between handlers the
                    // rounds would make no progress.
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
}
