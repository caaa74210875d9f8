//! A thread under fire: a timer of its own interrupts it some thousand times a second.
//!
//! Processors take interrupts where an instruction is slow, so hardly ever inside a sequence of
//! fast ones. On x86-64, one of eight times, the timer's handler therefore lets the thread walk on
//! by single steps, a random number of them, and only then raises the signal: each instruction on
//! the way is as likely as the others.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use atomseq::signal::{self, Event, Interrupted};

/// How long after one handler the timer expires again.
const NANOSECONDS: i64 = 20_000;

/// What the handler does, a `fn()`; how often it did; and how often what it interrupted was a
/// sequence.
static WORK: AtomicUsize = AtomicUsize::new(0);
static HANDLED: AtomicUsize = AtomicUsize::new(0);
static IN_SEQUENCES: AtomicUsize = AtomicUsize::new(0);
/// The timer, a `timer_t`.
static TIMER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Fired {
    /// How often the handler ran.
    pub deliveries: usize,
    /// How often it had interrupted a sequence.
    pub in_sequences: usize,
}

fn on_signal(event: &mut Event<'_>) {
    if event.interrupted() != Interrupted::Plain {
        IN_SEQUENCES.fetch_add(1, Ordering::Relaxed);
    }
    let work = WORK.load(Ordering::Relaxed) as *const ();
    // SAFETY: `under_fire` put a `fn()` there before it started the timer.
    let work: fn() = unsafe { std::mem::transmute(work) };
    work();
    HANDLED.fetch_add(1, Ordering::Relaxed);
    let timer = TIMER.load(Ordering::Relaxed);
    // SAFETY: a timer, or none any more.
    let started = unsafe { libc::timer_settime(timer, 0, &SOON, ptr::null_mut()) };
    assert_eq!(started, 0);
}

/// Repeats `thread` until it was interrupted at least `times`, each time by `handler`. For one
/// thread of a process at a time.
pub fn under_fire(times: usize, handler: fn(), mut thread: impl FnMut()) -> Fired {
    let count = || [&HANDLED, &IN_SEQUENCES].map(|count| count.load(Ordering::Relaxed));
    let before = count();
    WORK.store(handler as *const () as usize, Ordering::Relaxed);
    // SAFETY: the tests' handlers change structures of `atomseq::local` and atomics, and nothing
    // else.
    unsafe { signal::install(libc::SIGUSR1, on_signal).expect("a signal that can be handled") };
    #[cfg(target_arch = "x86_64")]
    walk::prepare();
    let timer = Timer::start();
    while HANDLED.load(Ordering::Relaxed) - before[0] < times {
        // Looking more rarely leaves more time to be interrupted in.
        (0..100).for_each(|_| thread());
    }
    drop(timer);
    let after = count();
    Fired {
        deliveries: after[0] - before[0],
        in_sequences: after[1] - before[1],
    }
}

/// What the timer raises: the signal itself, or what makes the thread walk until then.
#[cfg(not(target_arch = "x86_64"))]
const TIMER_SIGNAL: i32 = libc::SIGUSR1;
#[cfg(target_arch = "x86_64")]
const TIMER_SIGNAL: i32 = libc::SIGPROF;

/// From the timer's expiry to the signal: single steps.
#[cfg(target_arch = "x86_64")]
mod walk {
    use std::ffi::{c_int, c_void};
    use std::ptr;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// The longest walk, in instructions: longer than an operation of the structures and locks
    /// under test.
    const LONGEST: u64 = 256;

    /// One of how many signals comes after a walk: a step takes as long as a signal.
    const RARELY: u64 = 8;

    /// The trap flag: a signal after one instruction.
    const STEP: i64 = 0x100;

    /// The instruction `syscall`. A walk ends in front of one: a step while signals are blocked
    /// would end the process.
    const SYSCALL: [u8; 2] = [0x0f, 0x05];

    static STEPS_LEFT: AtomicU64 = AtomicU64::new(0);
    /// Of a linear congruential generator.
    static RANDOM: AtomicU64 = AtomicU64::new(1);

    /// Installs the handlers. They run with all signals blocked.
    pub(super) fn prepare() {
        for (signal, handler) in [
            (super::TIMER_SIGNAL, sets_out as Handler),
            (libc::SIGTRAP, steps),
        ] {
            // SAFETY: plain old data; the handlers do what handlers may.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                libc::sigfillset(&mut action.sa_mask);
                let installed = libc::sigaction(signal, &action, ptr::null_mut());
                assert_eq!(installed, 0, "{}", std::io::Error::last_os_error());
            }
        }
    }

    type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

    extern "C" fn sets_out(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
        let random = RANDOM.load(Relaxed);
        let next = random.wrapping_mul(6_364_136_223_846_793_005);
        RANDOM.store(next.wrapping_add(1_442_695_040_888_963_407), Relaxed);
        let steps = (random >> 32) % (RARELY * LONGEST);
        STEPS_LEFT.store(if steps < LONGEST { steps } else { 0 }, Relaxed);
        goes_on(context);
    }

    extern "C" fn steps(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
        STEPS_LEFT.fetch_sub(1, Relaxed);
        goes_on(context);
    }

    /// One more step, or the signal.
    fn goes_on(context: *mut c_void) {
        // SAFETY: the kernel's context of this delivery.
        let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
        let registers = &mut context.uc_mcontext.gregs;
        // SAFETY: the thread is about to execute what is there.
        let ahead = unsafe { *(registers[libc::REG_RIP as usize] as *const [u8; 2]) };
        // SAFETY: the mask that the thread returns to.
        let blocked = unsafe { libc::sigismember(&context.uc_sigmask, libc::SIGTRAP) } == 1;
        if STEPS_LEFT.load(Relaxed) > 0 && ahead != SYSCALL && !blocked {
            registers[libc::REG_EFL as usize] |= STEP;
            return;
        }
        registers[libc::REG_EFL as usize] &= !STEP;
        // SAFETY: a signal for this thread; it comes when this handler returns.
        unsafe {
            libc::syscall(
                libc::SYS_tgkill,
                libc::getpid(),
                libc::gettid(),
                libc::SIGUSR1,
            )
        };
    }
}

/// A timer that interrupts the thread that started it, and again after each handler.
struct Timer(libc::timer_t);

/// Once.
const SOON: libc::itimerspec = libc::itimerspec {
    it_interval: libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    },
    it_value: libc::timespec {
        tv_sec: 0,
        tv_nsec: NANOSECONDS,
    },
};

impl Timer {
    fn start() -> Timer {
        let mut timer = ptr::null_mut();
        // SAFETY: plain old data, and this thread.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = TIMER_SIGNAL;
            event.sigev_notify_thread_id = libc::gettid();
            let made = libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer);
            assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
            TIMER.store(timer, Ordering::Relaxed);
            let started = libc::timer_settime(timer, 0, &SOON, ptr::null_mut());
            assert_eq!(started, 0, "{}", std::io::Error::last_os_error());
        }
        Timer(timer)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: `start` made it. A last expiry may be on its way; by the return, it was
        // delivered.
        unsafe { libc::timer_delete(self.0) };
    }
}
