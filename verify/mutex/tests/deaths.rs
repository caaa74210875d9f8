//! Panics, threads that end and processes that fork while they hold something: what the documentation says comes of it.
#![cfg(target_os = "linux")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use atomseq::mutex::{Condvar, Interlocked, Mutex, OnCpu, RawBiased, RawMutex, RawSpin, Semaphore};
use lock_api::{RawMutex as _, RawMutexTimed};
use verify_mutex::threads::{ended_after, this_thread, wait_until, wait_until_asleep};
use verify_signals::fresh::{in_child, in_fresh_process};
use verify_signals::this_test;

const SHORT: Duration = Duration::from_millis(5);

#[test]
fn a_panic_lets_go_of_everything_and_poisons_nothing() {
    let (lock, spin, permits) = (
        Mutex::<u32>::new(0),
        atomseq::mutex::SpinLock::<u32>::new(0),
        Semaphore::new(1),
    );
    let panics = catch_unwind(AssertUnwindSafe(|| {
        let _permit = permits.acquire();
        let (mut first, mut second) = (lock.lock(), spin.lock());
        *first = 7;
        *second = 7;
        panic!("in the middle of it");
    }));
    assert!(panics.is_err());
    assert_eq!(*lock.try_lock().expect("free"), 7);
    assert_eq!(*spin.try_lock().expect("free"), 7);
    assert_eq!(permits.permits(), 1);
}

#[test]
fn a_panic_while_a_condition_is_looked_at_lets_go_of_the_lock() {
    let (lock, changed) = (Mutex::<u32>::new(0), Condvar::new());
    let panics = catch_unwind(AssertUnwindSafe(|| {
        changed.wait_while(&mut lock.lock(), |_| panic!("not to be looked at"));
    }));
    assert!(panics.is_err());
    assert!(lock.try_lock().is_some());
    // Nobody is counted as waiting: a thread that waits now is reached.
    thread::scope(|scope| {
        scope.spawn(|| changed.wait_while(&mut lock.lock(), |ready| *ready == 0));
        thread::sleep(SHORT);
        *lock.lock() = 1;
        changed.notify_one();
    });
}

/// Every lock made of it.
fn stays_held_when_its_holder_ends<R>(lock: &'static R)
where
    R: lock_api::RawMutex + RawMutexTimed<Duration = Duration> + Sync,
{
    ended_after(|| lock.lock());
    assert!(lock.is_locked());
    assert!(!lock.try_lock());
    assert!(!lock.try_lock_for(SHORT));
    // Whoever knows that its holder is gone may let go of it in its place, and wakes who waits.
    let waits = thread::spawn(|| {
        lock.lock();
        // SAFETY: it was just locked.
        unsafe { lock.unlock() };
    });
    thread::sleep(SHORT);
    // SAFETY: the holder has ended, and what it guarded is nothing.
    unsafe { lock.unlock() };
    waits.join().unwrap();
    assert!(!lock.is_locked());
}

#[test]
fn a_lock_stays_held_when_its_holder_ends() {
    static SPIN: RawSpin<Interlocked> = RawSpin::INIT;
    static MUTEX: RawMutex<Interlocked> = RawMutex::INIT;
    static BIASED: RawBiased = RawBiased::INIT;
    static ON_CPU: RawSpin<OnCpu> = RawSpin::INIT;
    stays_held_when_its_holder_ends(&BIASED);
    stays_held_when_its_holder_ends(&ON_CPU);
    stays_held_when_its_holder_ends(&SPIN);
    stays_held_when_its_holder_ends(&MUTEX);
}

#[test]
fn a_permit_stays_taken_when_its_holder_ends() {
    static PERMITS: Semaphore = Semaphore::new(1);
    ended_after(|| std::mem::forget(PERMITS.acquire()));
    assert!(PERMITS.try_acquire_for(SHORT).is_none());
    PERMITS.release().unwrap();
    assert!(PERMITS.try_acquire().is_some());
}

/// A thread that is ended by a handler while it sleeps takes nothing with it that is given later.
#[test]
fn who_ends_asleep_takes_nothing_along() {
    extern "C" fn ends_this_thread(_signal: i32) {
        // SAFETY: ends the thread that was interrupted; it holds nothing.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    static LOCK: Mutex<u32> = Mutex::new(0);
    static PERMITS: Semaphore = Semaphore::new(0);
    static CHANGED: Condvar = Condvar::new();

    /// Starts two that sleep, and ends the first.
    fn end_the_first(sleep: fn()) -> thread::JoinHandle<()> {
        let start = || {
            let number = std::sync::Arc::new(AtomicU32::new(0));
            let told = number.clone();
            let thread = thread::spawn(move || {
                told.store(this_thread() as u32, SeqCst);
                sleep();
            });
            wait_until(|| number.load(SeqCst) != 0);
            let number = number.load(SeqCst) as i32;
            wait_until_asleep(number);
            (thread, number)
        };
        let (_ended, number) = start();
        let (second, _) = start();
        // SAFETY: a thread of this process, whose handler ends it.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), number, libc::SIGUSR2) };
        let task = format!("/proc/self/task/{number}");
        wait_until(|| !std::path::Path::new(&task).exists());
        second
    }

    in_fresh_process(this_test!(), || {
        // SAFETY: the handler makes one system call.
        unsafe {
            libc::signal(
                libc::SIGUSR2,
                ends_this_thread as *const () as libc::sighandler_t,
            )
        };
        let held = LOCK.lock();
        let waits = end_the_first(|| *LOCK.lock() += 1);
        drop(held);
        waits.join().unwrap();
        let waits = end_the_first(|| PERMITS.acquire().forget());
        PERMITS.release().unwrap();
        waits.join().unwrap();
        let waits = end_the_first(|| CHANGED.wait_while(&mut LOCK.lock(), |value| *value == 1));
        *LOCK.lock() = 2;
        CHANGED.notify_one();
        waits.join().unwrap();
    });
}

#[test]
fn a_child_finds_locks_as_they_were_when_it_was_forked() {
    in_fresh_process(this_test!(), || {
        static MINE: Mutex<u32> = Mutex::new(0);
        static OTHERS: Mutex<u32> = Mutex::new(0);
        static HELD: AtomicU32 = AtomicU32::new(0);
        let other = thread::spawn(|| {
            let _held = OTHERS.lock();
            HELD.store(1, SeqCst);
            wait_until(|| HELD.load(SeqCst) == 2);
        });
        wait_until(|| HELD.load(SeqCst) == 1);
        let mut mine = MINE.lock();
        *mine = 1;
        in_child(|| {
            // This thread goes on in the child, and so do its guards.
            assert!(MINE.try_lock().is_none());
            // SAFETY: the guard is this thread's, and is not used again in the child, which ends without it.
            unsafe { MINE.force_unlock() };
            assert_eq!(*MINE.lock(), 1);
            // The other thread does not.
            assert!(OTHERS.try_lock_for(SHORT).is_none());
            assert!(OTHERS.is_locked());
        });
        HELD.store(2, SeqCst);
        other.join().unwrap();
        drop(mine);
        // What the child did, it did to its own copy.
        assert!(OTHERS.try_lock().is_some() && MINE.try_lock().is_some());
    });
}
