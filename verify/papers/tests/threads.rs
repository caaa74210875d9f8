//! Numbers for threads: registration fails with an error when they run out, and they are reused.

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
