//! What `lock_api` requires of a lock, and its operations on one.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use atomseq::mutex::{
    self, Biased, Condvar, Counted, Interlocked, Masked, Mutex, MutexBy, OnCpu, RawBiased,
    RawMutex, RawSpin, Restarting, Rolling, Semaphore, SpinLock, SpinLockBy, counts,
};
use lock_api::{MappedMutexGuard, MutexGuard, RawMutexFair, RawMutexTimed};
use verify_support::threads::{this_thread, wait_until, wait_until_asleep};

/// Checks all operations of `lock_api` on a lock, on one thread.
fn behaves<R>()
where
    R: lock_api::RawMutex + RawMutexTimed<Duration = Duration, Instant = Instant>,
{
    let lock = lock_api::Mutex::<R, (u32, u32)>::new((1, 2));
    assert!(!lock.is_locked());
    let guard = lock.lock();
    assert!(lock.is_locked() && lock.try_lock().is_none());
    assert!(lock.try_lock_for(Duration::from_millis(1)).is_none());
    assert!(lock.try_lock_until(Instant::now()).is_none());

    let mut second = MutexGuard::map(guard, |pair| &mut pair.1);
    *second = 3;
    assert!(lock.is_locked(), "a mapped guard holds it");
    let second = MappedMutexGuard::map(second, |second| second);
    drop(second);
    assert!(!lock.is_locked());

    let refused = MutexGuard::try_map(lock.lock(), |_| None::<&mut u32>);
    let mut guard = refused.expect_err("it was not mapped");
    assert!(lock.is_locked());
    MutexGuard::unlocked(&mut guard, || assert_eq!(*lock.lock(), (1, 3)));
    assert!(lock.is_locked());
    std::mem::forget(guard);
    // SAFETY: the guard was forgotten.
    unsafe { lock.force_unlock() };
    assert_eq!(
        *lock.try_lock_for(Duration::ZERO).expect("it is free"),
        (1, 3)
    );
    assert!(lock.try_lock_until(Instant::now()).is_some());
    assert_eq!(lock.into_inner(), (1, 3));
}

#[test]
fn of_every_mechanism() {
    behaves::<RawSpin<Interlocked>>();
    behaves::<RawSpin<Restarting>>();
    behaves::<RawSpin<Rolling>>();
    behaves::<RawSpin<Masked>>();
    behaves::<RawMutex<Interlocked>>();
    behaves::<RawMutex<Restarting>>();
    behaves::<RawMutex<Rolling>>();
    behaves::<RawMutex<Masked>>();
    behaves::<RawMutex<Counted<Interlocked>>>();
    behaves::<RawBiased>();
    behaves::<RawSpin<OnCpu>>();
}

#[test]
fn all_are_made_in_constants() {
    static SPIN: SpinLock<u32> = SpinLock::new(1);
    static MUTEX: Mutex<u32> = Mutex::new(2);
    static CHANGED: Condvar = Condvar::new();
    static PERMITS: Semaphore = Semaphore::new(3);
    CHANGED.notify_all();
    assert_eq!((*SPIN.lock(), *MUTEX.lock(), PERMITS.permits()), (1, 2, 3));
    assert_eq!(size_of::<RawSpin>(), 4);
    assert_eq!(size_of::<RawMutex>(), 8);
    assert_eq!(size_of::<Condvar>(), 8);
    assert_eq!(size_of::<Semaphore>(), 4);
}

#[test]
fn a_lock_in_an_expression_infers_its_data() {
    let (lock, spin, biased) = (Mutex::new(1), SpinLock::new(2), Biased::new(3));
    let part: mutex::MappedMutexGuard<'_, u8> = mutex::MutexGuard::map(lock.lock(), |whole| whole);
    let by = (MutexBy::<OnCpu, _>::new(4), SpinLockBy::<Masked, _>::new(5));
    let sum = *part + *spin.lock() + *biased.lock() + *by.0.lock() + *by.1.lock();
    assert_eq!(sum, 15);
}

/// Calls `notify` while so many threads sleep in a wait, then wakes the rest. Returns its result.
fn with_sleepers<T>(sleepers: usize, notify: impl FnOnce(&Condvar) -> T) -> T {
    let (end, changed) = (Mutex::new(false), Condvar::new());
    let numbers = [const { AtomicU32::new(0) }; 4];
    thread::scope(|scope| {
        for number in &numbers[..sleepers] {
            let (end, changed) = (&end, &changed);
            scope.spawn(move || {
                number.store(this_thread() as u32, SeqCst);
                changed.wait_while(&mut end.lock(), |end| !*end);
            });
            wait_until(|| number.load(SeqCst) != 0);
            wait_until_asleep(number.load(SeqCst) as i32);
        }
        let outcome = notify(&changed);
        *end.lock() = true;
        changed.notify_all();
        outcome
    })
}

#[test]
fn a_notification_returns_how_many_it_woke() {
    let woken = |sleepers| if HANDS_NOTHING_OVER { 0 } else { sleepers };
    for sleepers in 0..4 {
        let one = with_sleepers(sleepers, |changed| changed.notify_one());
        assert_eq!(one, woken(sleepers) > 0);
        let all = with_sleepers(sleepers, |changed| changed.notify_all());
        assert_eq!(all, woken(sleepers));
    }
}

/// Starts a thread that sleeps for the lock, and holds it until it is asked to release it.
fn with_a_waiter<R: lock_api::RawMutex + Sync>(
    lock: &lock_api::Mutex<R, ()>,
    held: MutexGuard<'_, R, ()>,
    unlock: impl FnOnce(MutexGuard<'_, R, ()>) -> bool,
) -> bool {
    let (number, end) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            number.store(this_thread() as u32, SeqCst);
            let _held = lock.lock();
            wait_until(|| end.load(SeqCst) == 1);
        });
        wait_until(|| number.load(SeqCst) != 0);
        wait_until_asleep(number.load(SeqCst) as i32);
        let outcome = unlock(held);
        end.store(1, SeqCst);
        waiter.join().unwrap();
        outcome
    })
}

/// Portable builds wake no thread, so they do not hand locks over.
const HANDS_NOTHING_OVER: bool = cfg!(not(atomseq_sections));

#[test]
fn a_fair_unlock_hands_over_and_another_does_not() {
    let lock = Mutex::<()>::new(());
    for _ in 0..20 {
        // Handed over: there is no time at which another could take it.
        let taken = with_a_waiter(&lock, lock.lock(), |held| {
            MutexGuard::unlock_fair(held);
            lock.try_lock().is_some()
        });
        assert!(!taken || HANDS_NOTHING_OVER);
        // Released: a running thread acquires it before the woken one can.
        let taken = (0..100).any(|_| {
            with_a_waiter(&lock, lock.lock(), |held| {
                drop(held);
                lock.try_lock().is_some()
            })
        });
        assert!(taken);
    }
}

// Portable builds hand nothing over.
#[cfg(atomseq_sections)]
#[test]
fn a_bump_lets_a_waiter_in_and_comes_back() {
    let lock = Mutex::<u32>::new(0);
    let mut held = lock.lock();
    // Without a waiter it is one load.
    MutexGuard::bump(&mut held);
    let number = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            number.store(this_thread() as u32, SeqCst);
            *lock.lock() += 1;
        });
        wait_until(|| number.load(SeqCst) != 0);
        wait_until_asleep(number.load(SeqCst) as i32);
        let before = *held;
        MutexGuard::bump(&mut held);
        let after = *held;
        // Whatever comes out, the waiter must get the lock, or the scope never ends.
        drop(held);
        assert_eq!((before, after), (0, 1));
    });
}

#[test]
fn handing_over_excludes_and_loses_nobody() {
    let lock = MutexBy::<Counted, u64>::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for turn in 0..5_000_u32 {
                    let mut guard = match turn % 4 {
                        0 => match lock.try_lock_for(Duration::from_micros(turn.into())) {
                            Some(guard) => guard,
                            None => continue,
                        },
                        _ => lock.lock(),
                    };
                    *guard += 1;
                    match turn % 3 {
                        0 => drop(guard),
                        1 => MutexGuard::unlock_fair(guard),
                        _ => MutexGuard::bump(&mut guard),
                    }
                }
            });
        }
    });
    assert!(!lock.is_locked());
    let counted = counts(&lock);
    // Each bump that lets another thread in acquires the lock again.
    assert!(counted.acquisitions >= *lock.lock(), "{counted}");
    // SAFETY: no thread holds it; it is only used for its type.
    let raw: &RawMutex<Counted> = unsafe { lock.raw() };
    // SAFETY: locked here, and unlocked without a waiter.
    unsafe {
        lock_api::RawMutex::lock(raw);
        raw.unlock_fair();
    }
    assert!(!lock.is_locked());
}

#[test]
fn what_is_counted() {
    let lock = MutexBy::<Counted, ()>::new(());
    let before = counts(&lock);
    with_a_waiter(&lock, lock.lock(), |held| {
        drop(held);
        true
    });
    let after = counts(&lock);
    assert_eq!(
        (before.acquisitions, before.found_held, before.blocks),
        (0, 0, 0)
    );
    assert_eq!((after.acquisitions, after.found_held), (2, 1));
    assert!(after.blocks >= 1);
    assert!(after.to_string().contains("found held 1 times"), "{after}");
}

#[test]
fn deadlines_are_kept_and_not_too_early() {
    let wait = Duration::from_millis(20);
    let taken_at_least = |work: &dyn Fn()| {
        let start = Instant::now();
        work();
        let taken = start.elapsed();
        assert!(taken >= wait, "{taken:?}");
        assert!(taken < Duration::from_secs(5), "{taken:?}");
    };
    let (lock, spin) = (Mutex::<()>::new(()), SpinLock::<()>::new(()));
    let (permits, changed) = (Semaphore::new(0), Condvar::new());
    let (held, spinning) = (lock.lock(), spin.lock());
    taken_at_least(&|| assert!(lock.try_lock_for(wait).is_none()));
    taken_at_least(&|| assert!(lock.try_lock_until(Instant::now() + wait).is_none()));
    taken_at_least(&|| assert!(spin.try_lock_for(wait).is_none()));
    taken_at_least(&|| assert!(permits.try_acquire_for(wait).is_none()));
    taken_at_least(&|| assert!(permits.try_acquire_until(Instant::now() + wait).is_none()));
    drop((held, spinning));
    taken_at_least(&|| assert!(changed.wait_for(&mut lock.lock(), wait).timed_out()));
    taken_at_least(&|| {
        let until = Instant::now() + wait;
        assert!(changed.wait_until(&mut spin.lock(), until).timed_out());
    });
    taken_at_least(&|| {
        let timed = changed.wait_while_for(&mut lock.lock(), |()| true, wait);
        assert!(timed.timed_out());
    });
}
