//! A lock between a thread and its signal handlers: exclusion by each mechanism of that scope; and
//! what a handler may do with locks, semaphores and condition variables.
#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use atomseq::local::per_thread;
use atomseq::mutex::{
    BiasedFlag, Condvar, Counted, Interlocked, Interventions, Masked, MutexBy, OnCpu, RawMutex,
    RawSpin, Restarting, Rolling, Semaphore, SpinLockBy, TestAndSet,
};
use atomseq::signal::{self, Event};
use atomseq_stress::engine::watch::{self, End, Goal};
use atomseq_stress::engine::{Interruptions, Options};
use atomseq_stress::targets::same_thread::{Place, SameThreadRound};
use verify_support::processes::{in_fresh_process, killed_in_fresh_process};
use verify_support::this_test;
use verify_support::threads::{this_thread, wait_until, wait_until_asleep};

/// How many signals a run takes.
const SIGNALS: u64 = 10_000;

/// Runs one lock a thread, which the thread and its signal handlers acquire.
fn run<R: lock_api::RawMutex + 'static>() -> End {
    let options = Options {
        workers: 2,
        moves: false,
        ..Options::new(fastrand::u64(..))
    };
    let goal = Goal {
        signals: SIGNALS,
        ..Goal::default()
    };
    watch::test(
        |setting| {
            Arc::new(SameThreadRound::<R>::new(
                setting,
                Place::Anywhere,
                Vec::new(),
            ))
        },
        Interruptions::Storm,
        &options,
        goal,
    )
}

macro_rules! excludes {
    ($($name:ident: $raw:ty;)*) => {$(
        #[test]
        fn $name() {
            in_fresh_process(this_test!(), || {
                let figures = run::<$raw>().expect_held();
                let (taken, tried) = (figures.counted, figures.operations - figures.worked);
                eprintln!("{}: {figures}; handlers acquired it {taken} times", stringify!($raw));
                assert!(taken > 0 && taken < tried, "handlers never found it free, or held");
            });
        }
    )*};
}

excludes! {
    spin_interlocked: RawSpin<Interlocked>;
    spin_restarting: RawSpin<Restarting>;
    spin_rolling: RawSpin<Rolling>;
    spin_masked: RawSpin<Masked>;
    spin_on_cpu: RawSpin<OnCpu>;
    spin_biased_flag: RawSpin<BiasedFlag>;
    mutex_interlocked: RawMutex<Interlocked>;
    mutex_restarting: RawMutex<Restarting>;
    mutex_rolling: RawMutex<Rolling>;
    mutex_masked: RawMutex<Masked>;
    mutex_biased_flag: RawMutex<BiasedFlag>;
    counted_restarting: RawSpin<Counted<Restarting>>;
}

#[cfg(atomseq_sections)]
mod without_recovery {
    use atomseq::internals::signal_controls::{RESTART, ROLLFORWARD, set};

    use super::*;

    macro_rules! controls {
        ($($name:ident: $raw:ty, $off:expr;)*) => {$(
            #[test]
            fn $name() {
                in_fresh_process(this_test!(), || {
                    // SAFETY: only integers can be lost.
                    unsafe { set($off) };
                    let detected = (0..20).any(|_| !run::<$raw>().has_held());
                    assert!(detected, "20 runs without a violation");
                });
            }
        )*};
    }

    controls! {
        restarting: RawSpin<Restarting>, RESTART;
        rolling: RawSpin<Rolling>, ROLLFORWARD;
    }
}

#[test]
fn interventions_for_a_mechanism_are_counted() {
    in_fresh_process(this_test!(), || {
        let mut restarts = 0;
        // Until a signal has interrupted a sequence; the portable build has none.
        while restarts == 0 && cfg!(atomseq_sections) {
            run::<RawSpin<Restarting>>().expect_held();
            restarts = signal::statistics().restarts;
        }
        let Interventions {
            restarts: counted, ..
        } = Restarting::interventions();
        assert!(counted >= Some(restarts));
        assert_eq!(Restarting::interventions().emulations, None);
        assert_eq!(Interlocked::interventions(), Interventions::default());
    });
}

/// `SIGABRT`, which no mask holds back, arrives at each instruction of a test-and-set, and its
/// handler keeps the flag if it is clear.
#[cfg(target_arch = "x86_64")]
mod unmaskable {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, AtomicUsize, compiler_fence};

    use verify_support::signals::{install_alone, raise};

    use super::*;

    const TRAP_FLAG: i64 = 0x100;

    /// Without optimisation there are thousands of instructions, and each is reached from the
    /// first: this visits every seventh, and the control each.
    const STRIDE: usize = if cfg!(debug_assertions) { 7 } else { 1 };

    per_thread! {
        static MASKED: SpinLockBy<Masked, ()> = SpinLockBy::new(());
        static COUNTED: MutexBy<Counted<Masked>, ()> = MutexBy::new(());
        static UNPROTECTED: AtomicU32 = AtomicU32::new(0);
    }

    std::thread_local!(static SET: Cell<fn() -> bool> = const { Cell::new(|| false) });
    static IS_KEPT: AtomicBool = AtomicBool::new(false);
    static PASS_BY: AtomicUsize = AtomicUsize::new(0);
    static IS_STOPPED: AtomicBool = AtomicBool::new(false);

    /// Steps from where the program sends `SIGTRAP`, and sends `SIGABRT` at the chosen instruction.
    extern "C" fn step(_: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel's record and context.
        let (is_sent, registers) = unsafe {
            let context = &mut *context.cast::<libc::ucontext_t>();
            ((*info).si_code <= 0, &mut context.uc_mcontext.gregs)
        };
        let flags = &mut registers[libc::REG_EFL as usize];
        if is_sent {
            *flags |= TRAP_FLAG;
        } else if PASS_BY.fetch_sub(1, SeqCst) == 0 {
            *flags &= !TRAP_FLAG;
            IS_STOPPED.store(true, SeqCst);
            raise(libc::SIGABRT);
        }
    }

    fn stop_stepping() {
        // SAFETY: clears the flag; the stack is left as it was.
        unsafe {
            std::arch::asm!("pushfq", "and qword ptr [rsp], {mask}", "popfq", mask = const !0x100i32);
        }
    }

    /// Interrupts one in `stride` of the instructions. Returns at how many the signal arrived, and
    /// how often both the thread and the handler then held the flag.
    fn interrupt_each(stride: usize, set: fn() -> bool, clear: fn()) -> (usize, usize) {
        fn keep(_: &mut Event<'_>) {
            IS_KEPT.store(SET.get()(), SeqCst);
        }
        SET.set(set);
        // SAFETY: a test-and-set.
        unsafe { signal::install(libc::SIGABRT, keep).unwrap() };
        install_alone(libc::SIGTRAP, step, 0);
        let (mut instructions, mut both) = (0, 0);
        loop {
            PASS_BY.store(stride * instructions, SeqCst);
            IS_STOPPED.store(false, SeqCst);
            raise(libc::SIGTRAP);
            let is_set = set();
            stop_stepping();
            if !IS_STOPPED.load(SeqCst) {
                return (instructions, both);
            }
            let is_kept = IS_KEPT.swap(false, SeqCst);
            assert!(is_set || is_kept, "none has set it");
            both += usize::from(is_set && is_kept);
            instructions += 1;
            clear();
        }
    }

    macro_rules! excludes {
        ($($name:ident: $lock:ident;)*) => {$(
            #[test]
            fn $name() {
                in_fresh_process(this_test!(), || {
                    let lock = || $lock.with(|lock| lock.try_lock().map(std::mem::forget).is_some());
                    // SAFETY: the thread or the handler holds it.
                    let unlock = || $lock.with(|lock| unsafe { lock.force_unlock() });
                    let (instructions, both) = interrupt_each(STRIDE, lock, unlock);
                    assert!(instructions > 10);
                    assert_eq!(both, 0, "of {instructions} instructions");
                });
            }
        )*};
    }

    excludes! {
        spin_masked: MASKED;
        mutex_counted_masked: COUNTED;
    }

    #[test]
    fn control_under_a_mask_alone_one_does() {
        in_fresh_process(this_test!(), || {
            fn set(flag: &AtomicU32) -> bool {
                let _masked = signal::mask();
                flag.load(SeqCst) == 0 && {
                    compiler_fence(SeqCst);
                    flag.store(1, SeqCst);
                    true
                }
            }
            let clear = || UNPROTECTED.with(|flag| flag.store(0, SeqCst));
            let (_, both) = interrupt_each(1, || UNPROTECTED.with(set), clear);
            assert!(both > 0);
        });
    }
}

per_thread! {
    static OWN: SpinLockBy<Restarting, u32> = SpinLockBy::new(0);
}

#[test]
fn a_handler_that_waits_for_what_it_interrupted_aborts() {
    fn waits(_event: &mut Event<'_>) {
        OWN.with(|lock| *lock.lock() += 1);
    }
    let errors = killed_in_fresh_process(this_test!(), libc::SIGABRT, || {
        // SAFETY: it waits for a lock of its thread, which aborts the process.
        unsafe { signal::install(libc::SIGUSR1, waits).unwrap() };
        // A free lock can be acquired.
        raise();
        OWN.with(|lock| {
            let guard = lock.lock();
            assert_eq!(*guard, 1);
            raise();
        });
    });
    if let Some(errors) = errors {
        assert!(errors.contains("use try_lock"), "{errors}");
    }
}

fn raise() {
    // SAFETY: a signal to this thread.
    unsafe { libc::raise(libc::SIGUSR1) };
}

static PERMITS: Semaphore = Semaphore::new(0);

#[test]
fn a_handler_releases_and_acquires_permits() {
    fn releases(_event: &mut Event<'_>) {
        // There is none, and it does not wait.
        assert!(PERMITS.try_acquire().is_none());
        PERMITS.release().unwrap();
    }
    in_fresh_process(this_test!(), || {
        // SAFETY: atomics and a system call.
        unsafe { signal::install(libc::SIGUSR1, releases).unwrap() };
        raise();
        PERMITS.acquire().forget();
        // While a thread sleeps for one, and in a handler on that thread.
        let sleeper = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                sleeper.store(this_thread() as u32, SeqCst);
                PERMITS.acquire().forget();
            });
            wait_until(|| sleeper.load(SeqCst) != 0);
            let thread = sleeper.load(SeqCst) as i32;
            wait_until_asleep(thread);
            // SAFETY: a thread of this process, which sleeps until then.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1) };
        });
        assert_eq!(PERMITS.permits(), 0);
    });
}

per_thread! {
    static ARRIVALS: MutexBy<Restarting, u32> = MutexBy::new(0);
}
static ARRIVED: Condvar = Condvar::new();

/// A thread waits for its own handler, while the lock is free.
#[test]
fn a_handler_notifies_the_thread_that_it_interrupts() {
    fn arrives(_event: &mut Event<'_>) {
        ARRIVALS.with(|arrivals| {
            if let Some(mut arrivals) = arrivals.try_lock() {
                *arrivals += 1;
                ARRIVED.notify_one();
            }
        });
    }
    in_fresh_process(this_test!(), || {
        // SAFETY: it tries a lock, and notifies.
        unsafe { signal::install(libc::SIGUSR1, arrives).unwrap() };
        let main = this_thread();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20 {
                    wait_until_asleep(main);
                    // SAFETY: the thread that started this one, and joins it.
                    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), main, libc::SIGUSR1) };
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            ARRIVALS.with(|arrivals| {
                let mut arrivals = arrivals.lock();
                ARRIVED.wait_while(&mut arrivals, |arrivals| *arrivals < 10);
            });
        });
    });
}
