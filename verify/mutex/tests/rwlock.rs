//! What `lock_api` requires of a lock with many readers, in each of its states: readers counted,
//! and readers biased to their CPUs.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use atomseq::mutex::{RawRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
use verify_support::processes::in_child;
use verify_support::sandbox::{Answer, Refusal, When, refuse};
use verify_support::threads::{this_thread, wait_until, wait_until_asleep};

/// Reads so often that readers become biased, where sections run.
fn biased<T>(lock: &RwLock<T>) {
    (0..3000).for_each(|_| drop(lock.read()));
}

/// Checks a property of a new lock, and of one whose readers are biased.
fn in_both_states<T>(make: fn() -> RwLock<T>, check: impl Fn(&RwLock<T>)) {
    check(&make());
    let lock = make();
    biased(&lock);
    check(&lock);
    // Biased again, after writers.
    biased(&lock);
    check(&lock);
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    in_both_states(
        || RwLock::new((1, 2)),
        |lock| {
            assert!(!lock.is_locked());
            let (first, second) = (lock.read(), lock.try_read().unwrap());
            assert_eq!(first.0 + second.1, 3);
            assert!(lock.is_locked() && !lock.is_locked_exclusive());
            assert!(lock.try_write().is_none());
            let (moment, start) = (Duration::from_millis(2), Instant::now());
            assert!(lock.try_write_for(moment).is_none());
            assert!(start.elapsed() >= moment);
            // A writer that gave up keeps no reader out.
            drop(lock.try_read().unwrap());
            drop(first);
            assert!(lock.try_write_until(Instant::now()).is_none());
            drop(second);
            assert!(!lock.is_locked());
            let mut writer = lock.write();
            writer.0 = 1;
            assert!(lock.is_locked_exclusive());
            assert!(lock.try_read().is_none() && lock.try_write().is_none());
            assert!(lock.try_read_for(moment).is_none());
            let reader = RwLockWriteGuard::downgrade(writer);
            assert_eq!(lock.read().0, reader.0);
            assert!(lock.try_write().is_none());
            let part = RwLockReadGuard::map(reader, |both| &both.1);
            assert_eq!(*part, 2);
            drop(part);
            drop(lock.try_write().unwrap());
            assert!(!lock.is_locked());
        },
    );
}

#[test]
fn a_guard_that_is_dropped_on_another_thread_or_cpu_counts_once() {
    in_both_states(
        || RwLock::new(0u64),
        |lock| {
            let guards: Vec<_> = (0..8).map(|_| lock.read()).collect();
            thread::scope(|scope| {
                for guard in guards {
                    scope.spawn(move || {
                        for _ in 0..4 {
                            thread::yield_now();
                            drop(lock.read());
                        }
                        drop(guard);
                    });
                }
            });
            assert!(!lock.is_locked());
            *lock.try_write().unwrap() += 1;
        },
    );
}

#[test]
fn no_reader_is_beside_a_writer() {
    const THREADS: u64 = 4;
    const WRITES: u64 = 300;
    let lock = RwLock::new([AtomicU64::new(0), AtomicU64::new(0)]);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let lock = &lock;
            scope.spawn(move || {
                for write in 0..WRITES {
                    // From always counted to nearly always biased.
                    for _ in 0..(write * 31 + thread * 7) % 2500 {
                        let both = lock.read();
                        let [first, second] = both.each_ref().map(|word| word.load(Relaxed));
                        assert_eq!(first, second);
                    }
                    let both = lock.write();
                    // Not an atomic addition, which only the lock makes one.
                    for word in &*both {
                        word.store(word.load(Relaxed) + 1, Relaxed);
                        if write % 16 == 0 {
                            thread::yield_now();
                        }
                    }
                }
            });
        }
    });
    let [first, second] = lock.into_inner().map(AtomicU64::into_inner);
    assert_eq!([first, second], [THREADS * WRITES; 2]);
}

/// A writer that sleeps is woken by the last reader, and readers that sleep by the writer.
#[test]
fn sleepers_are_woken() {
    in_both_states(
        || RwLock::new(0),
        |lock| {
            let reads = lock.read();
            let numbers = [const { AtomicU32::new(0) }; 2];
            let sleeps = |number: &AtomicU32| {
                wait_until(|| number.load(SeqCst) != 0);
                wait_until_asleep(number.load(SeqCst) as i32);
            };
            thread::scope(|scope| {
                scope.spawn(|| {
                    numbers[0].store(this_thread() as u32, SeqCst);
                    *lock.write() += 1;
                });
                sleeps(&numbers[0]);
                drop(reads);
            });
            let writes = lock.write();
            thread::scope(|scope| {
                let number = &numbers[1];
                scope.spawn(move || {
                    number.store(this_thread() as u32, SeqCst);
                    drop(lock.read());
                });
                sleeps(number);
                drop(writes);
            });
        },
    );
}

/// A child's sandbox kills it at the first system call of the kind.
#[test]
fn a_failed_read_makes_no_system_call_beside_a_writer_that_is_awake() {
    in_both_states(
        || RwLock::new(0),
        |lock| {
            in_child(|| {
                // A writer that has slept is awake again.
                let reader = lock.read();
                assert!(lock.try_write_for(Duration::from_millis(2)).is_none());
                drop(reader);
                let writer = lock.write();
                let (call, answer, when) = (libc::SYS_futex, Answer::Kill, When::Always);
                refuse(&Refusal { call, answer, when }).unwrap();
                for _ in 0..10 {
                    assert!(lock.try_read().is_none());
                }
                drop(writer);
            });
        },
    );
}

#[test]
fn it_is_made_in_a_constant_and_is_small() {
    static SHARED: RwLock<u32> = RwLock::new(7);
    assert_eq!(*SHARED.read(), 7);
    *SHARED.write() += 1;
    assert_eq!(*SHARED.read(), 8);
    assert!(size_of::<RawRwLock>() <= 96);
}
