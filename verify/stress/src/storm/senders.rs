//! What sends the signals: one timer a thread, and a sibling thread that does nothing else.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use verify_support::threads::signal;
pub use verify_support::timers::Timer;

/// Sent by the timer.
pub const TIMER: c_int = libc::SIGUSR2;
/// Sent by the sibling; pending ones are merged.
pub const SENT: c_int = libc::SIGUSR1;

/// Sent by another timer on request; its handler does not belong to the library.
pub const FOREIGN: c_int = libc::SIGURG;

/// Sent by the sibling with a value; none may be lost.
pub fn queued() -> c_int {
    libc::SIGRTMIN() + 2
}

/// A thread to which signals are sent.
#[derive(Debug, Default)]
pub struct Victim {
    /// Whether a thread reads or changes `thread`. Not a `std::sync::Mutex`: a race detector does
    /// not see its operations.
    busy: AtomicBool,
    /// The thread ID; 0 while no signals are to be sent.
    thread: AtomicI32,
}

impl Victim {
    /// Lets signals be sent to the calling thread.
    pub fn volunteer(&self) {
        // SAFETY: no arguments.
        self.change(unsafe { libc::gettid() });
    }

    /// Ends that. When this returns, no more signals are sent, and those that were sent and are not
    /// blocked have been handled.
    pub fn resign(&self) {
        self.change(0);
        // SAFETY: no arguments. On return from the kernel, pending signals are handled.
        unsafe { libc::sched_yield() };
    }

    fn change(&self, thread: libc::pid_t) {
        // Acquire: pairs with the releases here and in `with`.
        while self.busy.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        self.thread.store(thread, Ordering::Relaxed);
        self.busy.store(false, Ordering::Release);
    }

    fn with(&self, send: impl FnOnce(libc::pid_t)) {
        // Acquire: as above. A thread that changes it now gets no signal.
        if self.busy.swap(true, Ordering::Acquire) {
            return;
        }
        match self.thread.load(Ordering::Relaxed) {
            0 => {}
            thread => send(thread),
        }
        self.busy.store(false, Ordering::Release);
    }
}

/// Signals that were queued with a value, and those that arrived.
#[derive(Debug, Default)]
pub struct Post {
    sent: AtomicU64,
    values_sent: AtomicU64,
    received: AtomicU64,
    values_received: AtomicU64,
}

impl Post {
    /// Returns a record of no signals.
    pub const fn new() -> Post {
        Post {
            sent: AtomicU64::new(0),
            values_sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            values_received: AtomicU64::new(0),
        }
    }

    /// Records that a handler got this value.
    pub fn receive(&self, value: u64) {
        self.received.fetch_add(1, Ordering::Relaxed);
        self.values_received.fetch_add(value, Ordering::Relaxed);
    }

    fn send(&self, thread: libc::pid_t, value: u64) {
        /// The max number of pending signals: the system has room for a few thousand.
        const MAX: u64 = 64;
        let pending = self
            .sent
            .load(Ordering::Relaxed)
            .wrapping_sub(self.received.load(Ordering::Relaxed));
        if pending >= MAX {
            return;
        }
        // Counted first: it may arrive at once.
        self.sent.fetch_add(1, Ordering::Relaxed);
        if queue(thread, value) {
            self.values_sent.fetch_add(value, Ordering::Relaxed);
        } else {
            self.sent.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns how many were sent, and how many of them were lost, duplicated or changed.
    pub fn check_final(&self) -> (u64, u64) {
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let lost = read(&self.sent).abs_diff(read(&self.received));
        let changed = read(&self.values_sent) != read(&self.values_received);
        (read(&self.sent), lost + u64::from(changed))
    }
}

/// Sends signals to all victims until `over`; returns how many.
pub fn send_until(over: &AtomicBool, victims: &[Victim], post: &Post) -> u64 {
    /// How long it sends before it pauses.
    const BURST: Duration = Duration::from_millis(1);
    let mut sent = 0;
    let mut paused = Instant::now();
    while !over.load(Ordering::Relaxed) {
        for victim in victims {
            victim.with(|thread| {
                for _ in 0..fastrand::u8(1..4) {
                    sent += 1;
                    match fastrand::u8(..3) {
                        0 => post.send(thread, fastrand::u64(..1 << 20)),
                        _ => drop(signal(thread, SENT)),
                    }
                }
            });
        }
        // Sometimes without a pause, sometimes with time for the victims' operations.
        (0..fastrand::u32(..400)).for_each(|_| std::hint::spin_loop());
        // It pauses for as long as it has sent: otherwise victims whose handlers are slower than
        // this loop would only run handlers.
        let burst = paused.elapsed();
        if burst >= BURST {
            std::thread::sleep(burst);
            paused = Instant::now();
        }
    }
    sent
}

/// Sends one signal to each thread of this process, also to threads that start or exit; returns how
/// many.
pub fn signal_all_threads() -> u64 {
    let sent = verify_support::threads::all().map(|thread| u64::from(signal(thread, SENT)));
    sent.sum()
}

/// Queues a signal with a value; false if the system refuses it.
fn queue(thread: libc::pid_t, value: u64) -> bool {
    // The kernel's `siginfo_t`: number, error, code, padding; sender's process and user, value.
    let mut information = [0u64; 16];
    information[0] = queued() as u64;
    information[1] = u64::from(libc::SI_QUEUE as u32);
    // SAFETY: no arguments.
    information[2] = unsafe { libc::getpid() } as u64 | u64::from(unsafe { libc::getuid() }) << 32;
    information[3] = value;
    // SAFETY: a siginfo_t of 128 bytes, which the kernel copies.
    unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            libc::getpid(),
            thread,
            queued(),
            &raw const information,
        ) == 0
    }
}
