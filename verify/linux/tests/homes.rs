//! Locks with a home: in a child of a fork, where rseq is off, where atomseq itself registers
//! threads, and when their holder exits.
#![cfg(atomseq_sections)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use atomseq::mutex::{Biased, MutexBy, OnCpu};
use verify_support::processes::{Circumstances, fork, holds_in_child_of, in_fresh_process_under};
use verify_support::this_test;

/// Makes threads of all CPUs add, some of them by a visit from another CPU.
fn add_from_everywhere(threads: usize, each: u64) {
    let (biased, on_cpu) = (Biased::<u64>::new(0), MutexBy::<OnCpu, u64>::new(0));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..each {
                    *biased.lock() += 1;
                    *on_cpu.lock() += 1;
                }
            });
        }
    });
    let expected = threads as u64 * each;
    assert_eq!((*biased.lock(), *on_cpu.lock()), (expected, expected));
}

#[test]
fn they_work_with_rseq_and_without() {
    for variables in [
        [("ATOMSEQ_DISABLE_RSEQ", "0")],
        [("ATOMSEQ_DISABLE_RSEQ", "1")],
        [("GLIBC_TUNABLES", "glibc.pthread.rseq=0")],
    ] {
        let circumstances = Circumstances::environment(&variables);
        in_fresh_process_under(this_test!(), circumstances, || {
            let is_off = std::env::var("ATOMSEQ_DISABLE_RSEQ").is_ok_and(|value| value == "1");
            let status = atomseq::status();
            assert_ne!(status.gates_active(), is_off, "{status}");
            add_from_everywhere(4, 5_000);
        });
    }
}

#[test]
fn a_child_finds_a_lock_as_its_parent_had_it() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        let (biased, on_cpu) = (Biased::<u64>::new(0), MutexBy::<OnCpu, u64>::new(0));
        (*biased.lock(), *on_cpu.lock()) = (1, 1);
        holds_in_child_of(fork, || *biased.lock() + *on_cpu.lock() == 2);
        let held = (biased.lock(), on_cpu.lock());
        holds_in_child_of(fork, || {
            biased.try_lock().is_none() && on_cpu.try_lock().is_none()
        });
        // The child's thread is a copy of the holder: it may release the locks there.
        holds_in_child_of(fork, || {
            // SAFETY: locked by this thread before the fork, and its guard is never dropped in
            // the child.
            unsafe { (biased.force_unlock(), on_cpu.force_unlock()) };
            biased.try_lock().is_some() && on_cpu.try_lock().is_some()
        });
        drop(held);
    });
}

/// A thread visits all the time, so that forks copy claims. No child is blocked by a claim that no
/// thread ends.
#[test]
fn a_child_is_not_kept_out_by_a_claim() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        let lock = MutexBy::<OnCpu, u64>::new(0);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        drop(lock.lock());
                    }
                });
            }
            for _ in 0..200 {
                // The lock is held by a thread that the child does not have, or free: both are
                // found soon.
                holds_in_child_of(fork, || {
                    _ = lock.try_lock_for(Duration::from_millis(1));
                    true
                });
            }
            over.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn what_an_ended_thread_held_stays_held() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        let (biased, on_cpu) = (Biased::<()>::new(()), MutexBy::<OnCpu, ()>::new(()));
        thread::scope(|scope| {
            scope.spawn(|| std::mem::forget((biased.lock(), on_cpu.lock())));
        });
        let wait = Duration::from_millis(20);
        assert!(biased.try_lock_for(wait).is_none() && biased.is_locked());
        assert!(on_cpu.try_lock_for(wait).is_none() && on_cpu.is_locked());
        // SAFETY: locked, and the holder's guard is forgotten.
        unsafe { (biased.force_unlock(), on_cpu.force_unlock()) };
        assert!(biased.try_lock().is_some() && on_cpu.try_lock().is_some());
    });
}

#[test]
fn a_guard_across_a_panic_unlocks() {
    let lock = Biased::<u64>::new(0);
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        *lock.lock() += 1;
        let _held = lock.lock();
        panic!("with the lock held");
    }));
    assert!(panics.is_err());
    assert_eq!(*lock.lock(), 1);
}

/// A waiter that times out consumes no wake-up: the other waiters are woken.
#[test]
fn waiters_that_give_up_leave_no_other_asleep() {
    let lock = Biased::<u64>::new(0);
    let patient = thread::scope(|scope| {
        let patient: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..500 {
                        *lock.lock() += 1;
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                for micros in 0..500 {
                    if let Some(held) = lock.try_lock_for(Duration::from_micros(micros % 50)) {
                        thread::yield_now();
                        drop(held);
                    }
                }
            });
        }
        patient
            .into_iter()
            .map(|each| each.join())
            .all(|each| each.is_ok())
    });
    assert!(patient);
    assert_eq!(*lock.lock(), 1000);
}
