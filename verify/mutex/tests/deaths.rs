//! Panics, threads that exit and processes that fork while they hold a lock: the result is the
//! documented one.
#![cfg(target_os = "linux")]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use atomseq::local::per_thread;
use atomseq::mutex::{
    Condvar, Interlocked, Masked, Mutex, MutexBy, OnCpu, RawBiased, RawMutex, RawSpin, Restarting,
    Rolling, Semaphore, SpinLockBy, TestAndSet,
};
use atomseq::signal::{self, Event};
use lock_api::{MutexGuard, RawMutex as _, RawMutexTimed};
use verify_support::processes::{in_child, in_fresh_process, killed_in_fresh_process};
use verify_support::this_test;
use verify_support::threads::{
    ended_after, this_thread, wait_until, wait_until_asleep, wait_until_exited,
};

const SHORT: Duration = Duration::from_millis(5);

#[test]
fn a_panic_releases_all_locks_and_poisons_none() {
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
fn a_panic_in_a_condition_releases_the_lock() {
    let (lock, changed) = (Mutex::<u32>::new(0), Condvar::new());
    let panics = catch_unwind(AssertUnwindSafe(|| {
        changed.wait_while(&mut lock.lock(), |_| panic!("in the condition"));
    }));
    assert!(panics.is_err());
    assert!(lock.try_lock().is_some());
    // No waiter is counted any more: a notification reaches a thread that waits now.
    thread::scope(|scope| {
        scope.spawn(|| changed.wait_while(&mut lock.lock(), |ready| *ready == 0));
        thread::sleep(SHORT);
        *lock.lock() = 1;
        changed.notify_one();
    });
}

/// A mechanism of a user, whose next test-and-set panics on request.
#[derive(Debug)]
struct Panics(Interlocked, AtomicU32);

// SAFETY: sets, clears and looks as the mechanism inside does; a test-and-set that panics has set
// nothing.
unsafe impl TestAndSet for Panics {
    type Scope = <Interlocked as TestAndSet>::Scope;
    type GuardMarker = <Interlocked as TestAndSet>::GuardMarker;
    const NAME: &'static str = "panics";
    const CLEAR: Panics = Panics(Interlocked::CLEAR, AtomicU32::new(0));

    fn test_and_set(&self) -> bool {
        assert_eq!(self.1.load(SeqCst), 0, "panics on request");
        self.0.test_and_set()
    }

    unsafe fn clear(&self) {
        // SAFETY: by this function's contract.
        unsafe { self.0.clear() }
    }

    fn is_set(&self) -> bool {
        self.0.is_set()
    }

    unsafe fn clear_then_look(&self) {
        // SAFETY: by this function's contract.
        unsafe { self.0.clear_then_look() }
    }

    fn waiter_barrier(&self) {
        self.0.waiter_barrier();
    }
}

/// Runs `relocks` in a process of its own, with a lock that is held. Where the lock cannot be
/// acquired again, no guard of it may live on, so the process must abort, not panic.
fn no_guard_outlives<R: lock_api::RawMutex>(
    test: &str,
    why: &str,
    relocks: impl FnOnce(&mut MutexGuard<'_, R, u32>, &lock_api::Mutex<R, u32>),
) {
    let errors = killed_in_fresh_process(test, libc::SIGABRT, || {
        let lock = lock_api::Mutex::<R, u32>::new(0);
        let mut guard = lock.lock();
        let caught = catch_unwind(AssertUnwindSafe(|| relocks(&mut guard, &lock)));
        eprintln!("a guard has outlived a panic: {}", caught.is_err());
        // SAFETY: exits this process, which must have aborted before.
        unsafe { libc::_exit(0) };
    });
    if let Some(errors) = errors {
        assert!(errors.contains(why), "{errors}");
        assert!(!errors.contains("has outlived"), "{errors}");
    }
}

fn keep_it_meanwhile<R: lock_api::RawMutex>(
    guard: &mut MutexGuard<'_, R, u32>,
    lock: &lock_api::Mutex<R, u32>,
) {
    MutexGuard::unlocked(guard, || std::mem::forget(lock.try_lock()));
}

fn panic_meanwhile<R: lock_api::RawMutex>(
    prepare: impl Fn(&R),
) -> impl FnOnce(&mut MutexGuard<'_, R, u32>, &lock_api::Mutex<R, u32>) {
    move |guard, lock| {
        MutexGuard::unlocked(guard, || {
            // SAFETY: the raw lock is only read.
            prepare(unsafe { lock.raw() });
        });
    }
}

macro_rules! never_two_guards {
    ($($name:ident: $raw:ty, $why:expr, $relocks:expr;)*) => {$(
        #[test]
        fn $name() {
            no_guard_outlives::<$raw>(this_test!(), $why, $relocks);
        }
    )*};
}

never_two_guards! {
    relocked_spin_restarting: RawSpin<Restarting>, "use try_lock", keep_it_meanwhile;
    relocked_spin_rolling: RawSpin<Rolling>, "use try_lock", keep_it_meanwhile;
    relocked_spin_masked: RawSpin<Masked>, "use try_lock", keep_it_meanwhile;
    relocked_mutex_restarting: RawMutex<Restarting>, "use try_lock", keep_it_meanwhile;
    relocked_mutex_rolling: RawMutex<Rolling>, "use try_lock", keep_it_meanwhile;
    relocked_mutex_masked: RawMutex<Masked>, "use try_lock", keep_it_meanwhile;
    relocked_spin_by_what_panics: RawSpin<Panics>, "`lock` panicked",
        panic_meanwhile(|raw: &RawSpin<Panics>| raw.mechanism().1.store(1, SeqCst));
    relocked_mutex_by_what_panics: RawMutex<Panics>, "`lock` panicked",
        panic_meanwhile(|raw: &RawMutex<Panics>| raw.mechanism().1.store(1, SeqCst));
}

per_thread! {
    static OWN: SpinLockBy<Restarting, u32> = SpinLockBy::new(0);
}

static CHANGED: Condvar = Condvar::new();

#[test]
fn a_wait_whose_lock_a_handler_keeps_aborts() {
    fn keeps(_event: &mut Event<'_>) {
        OWN.with(|lock| std::mem::forget(lock.try_lock()));
        CHANGED.notify_one();
    }
    let errors = killed_in_fresh_process(this_test!(), libc::SIGABRT, || {
        // SAFETY: it sets a flag of this thread, and makes a system call.
        unsafe { signal::install(libc::SIGUSR1, keeps).unwrap() };
        // SAFETY: no conditions.
        let waits = unsafe { libc::pthread_self() };
        OWN.with(|lock| {
            let mut guard = lock.lock();
            // `keeps` does not acquire the lock before the wait has released it, so signals are
            // sent until it does.
            std::thread::spawn(move || {
                loop {
                    // SAFETY: that thread does not exit before the process.
                    unsafe { libc::pthread_kill(waits, libc::SIGUSR1) };
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
            loop {
                let wait = AssertUnwindSafe(|| CHANGED.wait_for(&mut guard, Duration::MAX));
                if catch_unwind(wait).is_err() {
                    eprintln!("a guard has outlived a panic");
                    // SAFETY: exits this process, which must have aborted before.
                    unsafe { libc::_exit(0) };
                }
            }
        });
    });
    if let Some(errors) = errors {
        assert!(errors.contains("use try_lock"), "{errors}");
    }
}

/// Checks a lock.
fn stays_held_when_its_holder_exits<R>(lock: &'static R)
where
    R: lock_api::RawMutex + RawMutexTimed<Duration = Duration> + Sync,
{
    ended_after(|| lock.lock());
    assert!(lock.is_locked());
    assert!(!lock.try_lock());
    assert!(!lock.try_lock_for(SHORT));
    // A thread that knows that the holder has exited may release the lock, which wakes a waiter.
    let waits = thread::spawn(|| {
        lock.lock();
        // SAFETY: it was just locked.
        unsafe { lock.unlock() };
    });
    thread::sleep(SHORT);
    // SAFETY: the holder has exited, and the lock guards nothing.
    unsafe { lock.unlock() };
    waits.join().unwrap();
    assert!(!lock.is_locked());
}

#[test]
fn a_lock_stays_held_when_its_holder_exits() {
    static SPIN: RawSpin<Interlocked> = RawSpin::INIT;
    static MUTEX: RawMutex<Interlocked> = RawMutex::INIT;
    static BIASED: RawBiased = RawBiased::INIT;
    static ON_CPU: RawSpin<OnCpu> = RawSpin::INIT;
    stays_held_when_its_holder_exits(&BIASED);
    stays_held_when_its_holder_exits(&ON_CPU);
    stays_held_when_its_holder_exits(&SPIN);
    stays_held_when_its_holder_exits(&MUTEX);
}

thread_local! {
    /// Whether this thread exits when it wakes up, and whether it slept.
    static EXITS: Cell<(bool, bool)> = const { Cell::new((false, false)) };
}

/// A mechanism by which a thread can exit when it wakes up, before it reads the lock.
#[derive(Debug)]
struct ExitsAwake(Interlocked);

// SAFETY: sets, clears and looks as the mechanism inside does.
unsafe impl TestAndSet for ExitsAwake {
    type Scope = <Interlocked as TestAndSet>::Scope;
    type GuardMarker = <Interlocked as TestAndSet>::GuardMarker;
    const NAME: &'static str = "exits awake";
    const CLEAR: ExitsAwake = ExitsAwake(Interlocked::CLEAR);

    fn test_and_set(&self) -> bool {
        self.0.test_and_set()
    }

    unsafe fn clear(&self) {
        // SAFETY: by this function's contract.
        unsafe { self.0.clear() }
    }

    fn is_set(&self) -> bool {
        if EXITS.get() == (true, true) {
            // SAFETY: exits this thread only; its stack stays mapped.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        self.0.is_set()
    }

    unsafe fn clear_then_look(&self) {
        // SAFETY: by this function's contract.
        unsafe { self.0.clear_then_look() }
    }

    fn waiter_barrier(&self) {
        self.0.waiter_barrier();
    }

    fn blocks(&self) {
        EXITS.set((EXITS.get().0, true));
    }
}

/// Starts a thread that sleeps for a lock, and exits when it wakes up, or adds one. Returns its ID,
/// too.
fn sleeper(lock: &'static MutexBy<ExitsAwake, u32>, exits: bool) -> (i32, thread::JoinHandle<()>) {
    let (send, receive) = channel();
    let thread = thread::spawn(move || {
        EXITS.set((exits, false));
        send.send(this_thread()).expect("the test waits");
        *lock.lock() += 1;
    });
    let number = receive.recv().expect("the thread's number");
    wait_until_asleep(number);
    (number, thread)
}

/// A waiter exits after an unlock woke it, before it reads the lock. Later unlocks wake no waiter
/// until another thread has slept; then the other waiters are woken again.
#[test]
fn a_waiter_that_exits_awake_delays_others_only_until_the_next_sleeps() {
    let lock = Box::leak(Box::new(MutexBy::new(0)));
    let guard = lock.lock();
    // Never joined: it has no result.
    let (first, _detached) = sleeper(lock, true);
    let (_, second) = sleeper(lock, false);
    drop(guard);
    wait_until_exited(first);
    let guard = lock.lock();
    assert!(lock.try_lock_for(SHORT).is_none(), "it slept");
    drop(guard);
    second.join().unwrap();
    assert_eq!(*lock.lock(), 1);
}

/// Checks that a lock can be acquired after a fair unlock for a waiter that does not exist any
/// more.
fn can_be_acquired_after_a_fair_unlock(lock: &MutexBy<ExitsAwake, u32>) {
    // SAFETY: this thread, or the one of which it is a copy, has locked it, and unlocks it only
    // here.
    unsafe { lock.force_unlock_fair() };
    assert!(lock.try_lock().is_some());
}

#[test]
fn a_fair_unlock_in_a_child_hands_nothing_to_a_waiter_of_its_parent() {
    in_fresh_process(this_test!(), || {
        let lock = Box::leak(Box::new(MutexBy::new(0)));
        let guard = lock.lock();
        let (_, waiter) = sleeper(lock, false);
        in_child(|| can_be_acquired_after_a_fair_unlock(lock));
        drop(guard);
        waiter.join().unwrap();
    });
}

#[test]
fn a_fair_unlock_hands_nothing_to_a_waiter_that_exited_asleep() {
    unsafe extern "C" fn exit(_: i32) {
        // SAFETY: exits this thread, which has nothing to drop.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    in_fresh_process(this_test!(), || {
        let lock = Box::leak(Box::new(MutexBy::new(0)));
        std::mem::forget(lock.lock());
        let (waiter, _detached) = sleeper(lock, false);
        // SAFETY: a handler that only makes a system call.
        unsafe { libc::signal(libc::SIGUSR1, exit as *const () as usize) };
        let (signal, process) = (libc::SIGUSR1, std::process::id());
        // SAFETY: sends a signal.
        unsafe { libc::syscall(libc::SYS_tgkill, process, waiter, signal) };
        wait_until_exited(waiter);
        can_be_acquired_after_a_fair_unlock(lock);
    });
}

/// Checks that a lock excludes after it was handed to a waiter that exited before it took the lock,
/// and was then released by force.
#[cfg(atomseq_sections)]
fn is_released_by_force(force: unsafe fn(&MutexBy<ExitsAwake, u32>)) {
    let lock: &MutexBy<ExitsAwake, u32> = Box::leak(Box::new(MutexBy::new(0)));
    let guard = lock.lock();
    // Never joined: it has no result.
    let (waiter, _detached) = sleeper(lock, true);
    MutexGuard::unlock_fair(guard);
    wait_until_exited(waiter);
    assert!(lock.is_locked());
    // SAFETY: the lock was handed to a thread that has exited.
    unsafe { force(lock) };
    assert!(!lock.is_locked());
    let mut first = lock.lock();
    // It waits, times out, and checks whether the lock was handed to it.
    let second = thread::spawn(|| lock.try_lock_for(SHORT).is_some());
    assert!(!second.join().unwrap(), "two guards of one lock");
    *first += 1;
}

// Portable builds do not hand locks over.
#[cfg(atomseq_sections)]
#[test]
fn a_lock_handed_to_a_thread_that_exited_is_released_by_force() {
    is_released_by_force(lock_api::Mutex::force_unlock);
    is_released_by_force(lock_api::Mutex::force_unlock_fair);
}

/// Threads that exit before each instruction of a lock's operation.
#[cfg(all(atomseq_sections, target_arch = "x86_64"))]
mod everywhere {
    use atomseq::mutex::Biased;
    use verify_support::code::steps::exit_at;
    use verify_support::cpus::{Cpus, move_to};
    use verify_support::processes::code_of_child;

    use super::*;

    /// The exit code of a child whose thread completed its work.
    const DID_ALL: i32 = 2;

    /// How long a child waits for a lock before its alarm kills it, which fails the test.
    const HANGS: u32 = 20;

    /// Forks one child for each instruction of an unlock. In it, a thread on `cpu` exits before
    /// that instruction. If the lock is held then, its holder has exited, and it is released by
    /// force; after that, it must be free. Returns how many instructions there were.
    fn is_free_after_each<R>(lock: &'static lock_api::Mutex<R, u64>, cpu: usize) -> u64
    where
        R: lock_api::RawMutex + Sync,
    {
        let code = |number| {
            code_of_child(|| {
                let (send, receive) = channel();
                let did_all = std::sync::Arc::new(AtomicU32::new(0));
                let says = did_all.clone();
                // Never joined: it has no result.
                let _detached = thread::spawn(move || {
                    move_to(cpu);
                    let guard = lock.lock();
                    send.send(this_thread()).expect("the child waits");
                    exit_at(number, || drop(guard));
                    says.store(1, SeqCst);
                });
                wait_until_exited(receive.recv().expect("the thread's number"));
                // SAFETY: exits the child only.
                unsafe { libc::alarm(HANGS) };
                if lock.is_locked() {
                    // SAFETY: its holder has exited.
                    unsafe { lock.force_unlock() };
                }
                *lock.lock() += 1;
                let guard = lock.try_lock().expect("it is free");
                assert!(lock.try_lock().is_none(), "two guards of one lock");
                drop(guard);
                did_all.load(SeqCst) as i32 * DID_ALL
            })
        };
        (0..)
            .find(|number| code(*number) == DID_ALL)
            .expect("the unlock ends")
    }

    /// Returns the home of a biased lock, as its `Debug` prints it.
    fn home(lock: &Biased<u64>) -> usize {
        // SAFETY: the raw lock is only read.
        let text = format!("{:?}", unsafe { lock.raw() });
        let home = text.split_once("home: ").map_or("", |(_, rest)| rest);
        let digits = home.split(|byte: char| !byte.is_ascii_digit()).next();
        digits.unwrap_or_default().parse().expect("a home")
    }

    #[test]
    fn a_holder_may_exit_at_any_instruction_of_an_unlock() {
        static MUTEX: Mutex<u64> = Mutex::new(0);
        static BIASED: Biased<u64> = Biased::new(0);
        let Cpus {
            home: first,
            other: Some(second),
        } = Cpus::allowed()
        else {
            println!("does not apply: one CPU has no visitors");
            return;
        };
        if !atomseq::status().gates_active() {
            println!("does not apply: per-CPU sequences cannot be fenced");
            return;
        }
        in_fresh_process(this_test!(), || {
            // No limit for all of them: each child has its own alarm.
            // SAFETY: cancels the alarm of this process.
            unsafe { libc::alarm(0) };
            let report = |what, count: u64| {
                println!("exits before each of {count} instructions of an unlock: {what}");
                assert!(count >= 10, "{what}: hardly anything was tried");
            };
            report("interlocked", is_free_after_each(&MUTEX, first));
            move_to(first);
            *BIASED.lock() += 1;
            assert_eq!(home(&BIASED), first);
            report("on the home CPU", is_free_after_each(&BIASED, first));
            report("after a visit", is_free_after_each(&BIASED, second));
            for visit in 0..40 {
                move_to([first, second][visit % 2]);
                *BIASED.lock() += 1;
            }
            let interlocked = home(&BIASED);
            assert!(![first, second].contains(&interlocked), "{interlocked}");
            // One visit less than what makes this CPU its home: the unlock in each child does.
            (1..1 << 14).for_each(|_| *BIASED.lock() += 1);
            assert_eq!(home(&BIASED), interlocked);
            report("back home", is_free_after_each(&BIASED, second));
            *BIASED.lock() += 1;
            assert_eq!(home(&BIASED), second);
        });
    }
}

#[test]
fn a_permit_stays_taken_when_its_holder_exits() {
    static PERMITS: Semaphore = Semaphore::new(1);
    ended_after(|| std::mem::forget(PERMITS.acquire()));
    assert!(PERMITS.try_acquire_for(SHORT).is_none());
    PERMITS.release().unwrap();
    assert!(PERMITS.try_acquire().is_some());
}

/// A thread that a handler makes exit while it sleeps takes no later wake-up with it.
#[test]
fn a_thread_that_exits_asleep_takes_no_wake_up() {
    extern "C" fn exits_this_thread(_signal: i32) {
        // SAFETY: exits the interrupted thread, which holds nothing.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    static LOCK: Mutex<u32> = Mutex::new(0);
    static PERMITS: Semaphore = Semaphore::new(0);
    static CHANGED: Condvar = Condvar::new();

    /// Starts two threads that sleep, and makes the first one exit.
    fn exit_the_first(sleep: fn()) -> thread::JoinHandle<()> {
        let start = || {
            let number = std::sync::Arc::new(AtomicU32::new(0));
            let published = number.clone();
            let thread = thread::spawn(move || {
                published.store(this_thread() as u32, SeqCst);
                sleep();
            });
            wait_until(|| number.load(SeqCst) != 0);
            let number = number.load(SeqCst) as i32;
            wait_until_asleep(number);
            (thread, number)
        };
        let (_ended, number) = start();
        let (second, _) = start();
        // SAFETY: a thread of this process, whose handler makes it exit.
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
                exits_this_thread as *const () as libc::sighandler_t,
            )
        };
        let held = LOCK.lock();
        let waits = exit_the_first(|| *LOCK.lock() += 1);
        drop(held);
        waits.join().unwrap();
        let waits = exit_the_first(|| PERMITS.acquire().forget());
        PERMITS.release().unwrap();
        waits.join().unwrap();
        let waits = exit_the_first(|| CHANGED.wait_while(&mut LOCK.lock(), |value| *value == 1));
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
            // The child is a copy of this thread, with its guards.
            assert!(MINE.try_lock().is_none());
            // SAFETY: this thread owns the guard, and the child exits without using it again.
            unsafe { MINE.force_unlock() };
            assert_eq!(*MINE.lock(), 1);
            // The other thread has no copy.
            assert!(OTHERS.try_lock_for(SHORT).is_none());
            assert!(OTHERS.is_locked());
        });
        HELD.store(2, SeqCst);
        other.join().unwrap();
        drop(mine);
        // The child has changed only its own copy.
        assert!(OTHERS.try_lock().is_some() && MINE.try_lock().is_some());
    });
}
