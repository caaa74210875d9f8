//! Linux: affinity, signals, timers, the fence.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::time::Duration;

use atomseq::signal::{self, Event, Options};

use super::Signal;
use crate::memory;
use crate::torture::needs::Need;

/// Bits for 8,192 CPUs, Linux's largest configuration.
type CpuSet = [u64; 128];

/// The kernel's number of the calling thread.
pub fn own_number() -> i32 {
    // SAFETY: no argument, no precondition.
    unsafe { libc::gettid() }
}

/// Lets a thread run on these CPUs only; false when the system refuses. It is on one of them when
/// this returns.
pub fn move_thread(thread: i32, cpus: &[usize]) -> bool {
    let mut set: CpuSet = [0; 128];
    for &cpu in cpus {
        if let Some(word) = set.get_mut(cpu / 64) {
            *word |= 1 << (cpu % 64);
        }
    }
    // SAFETY: the kernel reads `size_of::<CpuSet>()` bytes, all of them inside `set`.
    let result =
        unsafe { libc::sched_setaffinity(thread, size_of::<CpuSet>(), (&raw const set).cast()) };
    Need::Moves.granted(result == 0)
}

fn number(signal: Signal) -> c_int {
    match signal {
        Signal::Sent => libc::SIGUSR1,
        Signal::Timer => libc::SIGUSR2,
    }
}

/// Sends a signal to one thread of this process; false when there is no such thread.
pub fn interrupt(thread: i32, signal: Signal) -> bool {
    // SAFETY: numbers only; the thread must be one of this process, or nothing happens.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, number(signal)) };
    Need::Signals.granted(sent == 0)
}

/// Aborts the sections of this process that run on a CPU; false when the kernel has no such fence.
pub fn fence(cpu: usize) -> bool {
    const PRIVATE_EXPEDITED_RSEQ: c_int = 1 << 7;
    const FLAG_CPU: c_int = 1;
    // SAFETY: the command takes a CPU's number and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, PRIVATE_EXPEDITED_RSEQ, FLAG_CPU, cpu) == 0 }
}

/// What the handlers call, as an address; 0 before they are installed.
static HANDLER: AtomicUsize = AtomicUsize::new(0);

/// From now on both signals call this function, on the thread they reach: by way of
/// `atomseq::signal` if they are to be managed. It must be async-signal-safe. One signal's handler
/// may interrupt the other's.
pub fn install_handlers(handler: fn(Signal), managed: bool) {
    HANDLER.store(handler as usize, Ordering::Release);
    for number in [Signal::Sent, Signal::Timer].map(number) {
        match (managed, signal::is_managed(number)) {
            (true, true) => {}
            (true, false) => {
                // SAFETY: the handler is async-signal-safe, by this function's own promise.
                let installed =
                    unsafe { signal::install_with(number, on_event, Options::new().nesting()) };
                installed.unwrap_or_else(|error| panic!("{error}"));
            }
            (false, was_managed) => {
                if was_managed {
                    signal::uninstall(number).unwrap_or_else(|error| panic!("{error}"));
                }
                install(number, handle as *const () as usize, libc::SA_RESTART);
            }
        }
    }
}

fn on_event(event: &mut Event<'_>) {
    handle(event.signal());
}

fn install(signal: c_int, handler: usize, flags: c_int) {
    // SAFETY: `sigaction` is numbers and a set of bits, for which zero is a value: no signal is
    // masked, so that one handler may interrupt the other.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: a valid action, whose handler lives as long as the program and takes what its flags
    // promise.
    let result = unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
    assert_eq!(result, 0, "signal {signal} can be handled");
}

extern "C" fn handle(signal: c_int) {
    // SAFETY: errno of this thread; what the handler does must not change it for the code it
    // interrupted.
    let errno = unsafe { *libc::__errno_location() };
    let handler = HANDLER.load(Ordering::Acquire);
    // SAFETY: `install_handlers` stored a function of this type before it installed this one.
    let handler: fn(Signal) = unsafe { std::mem::transmute(handler) };
    handler(if signal == libc::SIGUSR1 {
        Signal::Sent
    } else {
        Signal::Timer
    });
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// The text for `crashed`: its start and its length.
static LAST_WORDS: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static LAST_WORDS_LENGTH: AtomicUsize = AtomicUsize::new(0);
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Says what to print if the process crashes, before it ends with exit code 1. The text stays in
/// memory.
pub fn on_crash(text: String) {
    let text: &'static mut str = Box::leak(text.into_boxed_str());
    // Nothing between the two: a crash in between would print a wrong length of a text.
    LAST_WORDS_LENGTH.store(0, Ordering::SeqCst);
    LAST_WORDS.store(text.as_mut_ptr(), Ordering::SeqCst);
    LAST_WORDS_LENGTH.store(text.len(), Ordering::SeqCst);
    // Once: what is installed above it later stays there.
    if INSTALLED.swap(true, Ordering::SeqCst) {
        return;
    }
    for signal in [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGABRT,
    ] {
        install(
            signal,
            crashed as *const () as usize,
            libc::SA_ONSTACK | libc::SA_RESETHAND,
        );
    }
}

extern "C" fn crashed(signal: c_int) {
    if signal == libc::SIGABRT {
        memory::end_if_short();
    }
    let text = LAST_WORDS.load(Ordering::SeqCst);
    let length = LAST_WORDS_LENGTH.load(Ordering::SeqCst);
    // SAFETY: a leaked text of this length, and two calls that are allowed in a handler.
    unsafe {
        libc::write(2, text.cast(), length);
        libc::_exit(1);
    }
}

/// Interrupts one thread again and again, until dropped.
#[derive(Debug)]
pub struct Timer(libc::timer_t);

// SAFETY: a timer is the process's, not its maker's.
unsafe impl Send for Timer {}

impl Timer {
    /// A timer for a thread of this process; `None` when the system has no more.
    pub fn start(thread: i32, period: Duration) -> Option<Timer> {
        // SAFETY: numbers and a union of numbers and pointers, for which zero is a value.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = number(Signal::Timer);
        event.sigev_notify_thread_id = thread;
        let mut timer = MaybeUninit::uninit();
        // SAFETY: a valid event, and room for the timer.
        let created =
            unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, timer.as_mut_ptr()) };
        if created != 0 {
            Need::Timers.granted(false);
            return None;
        }
        // SAFETY: created above.
        let timer = Timer(unsafe { timer.assume_init() });
        Need::Timers.granted(timer.set(period)).then_some(timer)
    }

    /// Interrupts the thread that often from now on; false when the system refuses it.
    pub fn set(&self, period: Duration) -> bool {
        let period = libc::timespec {
            tv_sec: period.as_secs() as libc::time_t,
            tv_nsec: period.subsec_nanos() as libc::c_long,
        };
        let times = libc::itimerspec {
            it_interval: period,
            it_value: period,
        };
        // SAFETY: our timer and valid times.
        unsafe { libc::timer_settime(self.0, 0, &times, std::ptr::null_mut()) == 0 }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: created by `start`, deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}
