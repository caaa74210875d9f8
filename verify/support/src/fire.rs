//! A thread under fire: a timer of its own interrupts it some thousand times a second.
//!
//! Processors take interrupts where an instruction is slow, so hardly ever inside a sequence of
//! fast ones. On x86-64, one of eight times, the timer's handler therefore lets the thread walk on
//! by single steps, a random number of them, and only then raises the signal: each instruction on
//! the way is as likely as the others.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use atomseq::signal::{self, Event, Interrupted};

use crate::timers::{Handle, Timer};

/// How long after one handler the timer expires again.
const AFTER: Duration = Duration::from_micros(20);

/// What the handler does, a `fn()`; how often it did; and how often what it interrupted was a
/// sequence.
static WORK: AtomicUsize = AtomicUsize::new(0);
static HANDLED: AtomicUsize = AtomicUsize::new(0);
static IN_SEQUENCES: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    // Constant, and nothing to drop: handlers may use it.
    static TIMER: Cell<Option<Handle>> = const { Cell::new(None) };
}

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
    if let Some(timer) = TIMER.get() {
        timer.once(AFTER);
    }
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
    let timer = Timer::new(TIMER_SIGNAL).expect("a timer for this thread");
    TIMER.set(Some(timer.handle()));
    timer.handle().once(AFTER);
    while HANDLED.load(Ordering::Relaxed) - before[0] < times {
        // Looking more rarely leaves more time to be interrupted in.
        (0..100).for_each(|_| thread());
    }
    TIMER.set(None);
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
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use crate::signals::install_alone;
    use crate::threads::{signal, this_thread};

    /// The longest walk, in instructions: longer than an operation of the structures and locks
    /// under test.
    const LONGEST: u64 = 256;

    /// One of how many signals comes after a walk: a step takes as long as a signal.
    const RARELY: u64 = 8;

    /// The trap flag: a signal after one instruction. Not of `code`, which needs sections.
    const STEP: i64 = 0x100;

    /// The instruction `syscall`. A walk ends in front of one: a step while signals are blocked
    /// would end the process.
    const SYSCALL: [u8; 2] = [0x0f, 0x05];

    static STEPS_LEFT: AtomicU64 = AtomicU64::new(0);
    /// Of a linear congruential generator.
    static RANDOM: AtomicU64 = AtomicU64::new(1);

    /// Installs the handlers. They run with all signals blocked.
    pub(super) fn prepare() {
        install_alone(super::TIMER_SIGNAL, sets_out, libc::SA_RESTART);
        install_alone(libc::SIGTRAP, steps, libc::SA_RESTART);
    }

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
        // It comes when this handler returns.
        signal(this_thread(), libc::SIGUSR1);
    }
}
