//! A thread under fire: a timer of its own interrupts it some ten thousand times a second.

use std::sync::atomic::{AtomicUsize, Ordering};

use atomseq::signal::{self, Event, Interrupted};

/// How long after one expiry of the timer the next one is: a few times what a handler takes.
const NANOSECONDS: i64 = 30_000;

/// What the handler does, a `fn()`; how often it did; and how often what it interrupted was a sequence.
static WORK: AtomicUsize = AtomicUsize::new(0);
static HANDLED: AtomicUsize = AtomicUsize::new(0);
static IN_SEQUENCES: AtomicUsize = AtomicUsize::new(0);

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
}

/// Repeats `thread` until it was interrupted at least `times`, each time by `handler`. For one thread of a
/// process at a time.
pub fn under_fire(times: usize, handler: fn(), mut thread: impl FnMut()) -> Fired {
    let count = || [&HANDLED, &IN_SEQUENCES].map(|count| count.load(Ordering::Relaxed));
    let before = count();
    WORK.store(handler as *const () as usize, Ordering::Relaxed);
    // SAFETY: the tests' handlers change structures of `atomseq::local` and atomics, and nothing else.
    unsafe { signal::install(libc::SIGUSR1, on_signal).expect("a signal that can be handled") };
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

/// A timer that interrupts the thread that started it.
struct Timer(libc::timer_t);

impl Timer {
    fn start() -> Timer {
        let mut timer = std::ptr::null_mut();
        let span = libc::timespec {
            tv_sec: 0,
            tv_nsec: NANOSECONDS,
        };
        let times = libc::itimerspec {
            it_interval: span,
            it_value: span,
        };
        // SAFETY: plain old data, and this thread.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGUSR1;
            event.sigev_notify_thread_id = libc::gettid();
            let made = libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer);
            assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
            assert_eq!(
                libc::timer_settime(timer, 0, &times, std::ptr::null_mut()),
                0
            );
        }
        Timer(timer)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: `start` made it. A last expiry may be on its way; by the return, it was delivered.
        unsafe { libc::timer_delete(self.0) };
    }
}
