//! Test-and-set by a system call: whatever the kernel reports about the word's owner, the word
//! decides. And kernels that refuse the call.
#![cfg(atomseq_sections)]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use atomseq::mutex::TestAndSet;
use atomseq_papers::emulation::{Call, Error, Trap};
use verify_support::processes::in_fresh_process;
use verify_support::sandbox::{always, refuse};
use verify_support::this_test;

#[test]
fn what_a_thread_holds_it_does_not_get_again() {
    let flag = Call::CLEAR;
    assert!(flag.test_and_set());
    assert!(!flag.test_and_set());
    assert!(flag.is_set());
}

#[test]
fn what_an_ended_thread_holds_stays_held_until_it_is_cleared() {
    let flag = Call::CLEAR;
    assert!(thread::scope(|scope| scope
        .spawn(|| flag.test_and_set())
        .join()
        .unwrap()));
    // Its number is unused now, or another thread's.
    for _ in 0..100 {
        assert!(!flag.test_and_set());
        assert!(!thread::scope(|scope| scope
            .spawn(|| flag.test_and_set())
            .join()
            .unwrap()));
    }
    // SAFETY: the thread has exited, and handed the flag over.
    unsafe { flag.clear() };
    assert!(flag.test_and_set());
}

/// While other threads try, the kernel records the holder as the word's owner for a moment, and a
/// clear by a store does not notify it.
#[test]
fn clears_and_attempts_may_meet() {
    static FLAG: Call = Call::CLEAR;
    static HELD: AtomicU32 = AtomicU32::new(0);
    static FAILURES: AtomicU32 = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    if FLAG.test_and_set() {
                        assert_eq!(HELD.swap(1, SeqCst), 0, "two hold it");
                        HELD.store(0, SeqCst);
                        // SAFETY: this thread set it.
                        unsafe { FLAG.clear() };
                    } else {
                        FAILURES.fetch_add(1, SeqCst);
                    }
                }
            });
        }
    });
    println!("found held {} times", FAILURES.load(SeqCst));
    assert!(!FLAG.is_set());
    assert!(FLAG.test_and_set(), "nothing of it is left in the kernel");
}

#[test]
fn where_the_kernel_refuses_the_start_says_so() {
    in_fresh_process(this_test!(), || {
        static DONE: AtomicBool = AtomicBool::new(false);
        thread::spawn(|| {
            refuse(&always(libc::SYS_futex, libc::ENOSYS)).unwrap();
            let expected = |call| Error::Refused {
                call,
                errno: libc::ENOSYS,
            };
            assert_eq!(Call::start(), Err(expected("FUTEX_TRYLOCK_PI")));
            assert_eq!(Trap::start(), Err(expected("FUTEX_WAKE_OP")));
            let sentence = expected("FUTEX_WAKE_OP").to_string();
            assert!(sentence.contains("choose another mechanism"), "{sentence}");
            DONE.store(true, SeqCst);
            // It cannot notify the other thread of its end any more.
            thread::sleep(Duration::from_secs(600));
        });
        for _ in 0..1_000 {
            if DONE.load(SeqCst) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("an assertion failed");
    });
}
