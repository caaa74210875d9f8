//! The calls of the kernel: waiting for words, clocks, CPUs, and the states of other threads.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// A time or a length of time, in nanoseconds.
pub(super) type Nanoseconds = u64;

/// Waits until `wake` is called for the word or the time limit has passed. Returns at once if the
/// word differs from `expected`. May return spuriously.
pub(super) fn wait(word: &AtomicU32, expected: u32, limit: Option<Nanoseconds>) {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: (limit / 1_000_000_000) as libc::time_t,
        tv_nsec: (limit % 1_000_000_000) as _,
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the word is valid for the call.
    unsafe {
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, limit);
    }
}

/// Wakes a thread that waits for the word at this address, which may be invalid by now.
pub(super) fn wake(word: *const AtomicU32) {
    wake_many(word, 1);
}

/// Wakes all threads that wait for the word.
pub(super) fn wake_all(word: &AtomicU32) {
    wake_many(word, c_int::MAX);
}

fn wake_many(word: *const AtomicU32, count: c_int) {
    // SAFETY: the kernel only looks the address up.
    unsafe {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, word, operation, count);
    }
}

/// How a kernel thread waits: it looks for a while, and then sleeps. It looks for as long as it
/// takes to sleep and to be woken, if the last wait was that short. Otherwise two threads that
/// answer each other at once would both sleep each time. On one CPU it yields that between looks:
/// one system call, where to sleep and to be woken takes two.
#[derive(Debug)]
pub(super) struct Patience {
    /// The number of looks before the clock is read, and the minimum. 1 on one CPU.
    looks: usize,
    /// How long the last wait took.
    last: AtomicU64,
}

/// A wait that is worth looking for: on virtual CPUs, a wake-up takes 10 µs and more.
const SHORT: Nanoseconds = 50_000;

impl Patience {
    /// Returns that of threads which may use so many CPUs. On one, nothing changes between looks
    /// without a yield.
    pub const fn new(cpus: usize) -> Patience {
        Patience {
            looks: if cpus > 1 { 50 } else { 1 },
            last: AtomicU64::new(0),
        }
    }

    /// Looks until `is_over` returns true; calls `sleep` if that takes long.
    pub fn wait(&self, is_over: impl Fn() -> bool, sleep: impl FnOnce()) {
        let begin = now();
        // Relaxed: an estimate.
        let limit = match self.last.load(Relaxed) <= SHORT {
            true => SHORT,
            false => 0,
        };
        loop {
            for _ in 0..self.looks {
                if is_over() {
                    return self.last.store(now() - begin, Relaxed);
                }
                core::hint::spin_loop();
            }
            if now() - begin >= limit {
                break;
            }
            if self.looks == 1 {
                std::thread::yield_now();
            }
        }
        sleep();
        self.last.store(now() - begin, Relaxed);
    }
}

/// An event that happens once, and for which one kernel thread waits.
#[derive(Debug)]
pub(super) struct Event(AtomicU32);

/// The waiter sleeps, or is about to.
const AWAITED: u32 = 1;
const HAPPENED: u32 = 2;

impl Event {
    pub const fn new() -> Event {
        Event(AtomicU32::new(0))
    }

    pub fn has_happened(&self) -> bool {
        self.0.load(SeqCst) == HAPPENED
    }

    /// Waits for the event.
    pub fn wait(&self, patience: &Patience) {
        let sleep = || {
            let _ = self.0.compare_exchange(0, AWAITED, SeqCst, SeqCst);
            while !self.has_happened() {
                wait(&self.0, AWAITED, None);
            }
        };
        patience.wait(|| self.has_happened(), sleep);
    }

    /// Lets the event happen.
    ///
    /// # Safety
    ///
    /// The event is valid until the waiter can see that it has happened.
    pub unsafe fn set(event: *const Event) {
        // SAFETY: the caller's promise. After the exchange, only the address is used.
        unsafe {
            let word = &raw const (*event).0;
            if (*word).swap(HAPPENED, SeqCst) == AWAITED {
                wake(word);
            }
        }
    }
}

/// Returns the time of the monotonic clock. A handler may call it.
pub(super) fn now() -> Nanoseconds {
    clock(libc::CLOCK_MONOTONIC)
}

/// Returns the CPU time that a thread of this process has used.
pub(super) fn cpu_time(thread: libc::pid_t) -> Nanoseconds {
    clock(cpu_clock(thread))
}

fn cpu_clock(thread: libc::pid_t) -> libc::clockid_t {
    /// The kernel's CPUCLOCK_SCHED of one thread.
    const OF_A_THREAD: libc::clockid_t = 0b110;
    !thread << 3 | OF_A_THREAD
}

fn clock(clock: libc::clockid_t) -> Nanoseconds {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the kernel writes a time, or leaves the zeros.
    let time = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the calling thread's number.
pub(super) fn thread_number() -> libc::pid_t {
    // SAFETY: asks only.
    unsafe { libc::gettid() }
}

/// Sends a signal to a thread of this process, which may have exited. A handler may call it.
pub(super) fn send(thread: libc::pid_t, signal: c_int) {
    // SAFETY: sends a signal, for which this crate has a handler.
    keep_errno(|| unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) });
}

/// Calls a function and restores the error number, which the code that a handler has interrupted
/// may be about to read.
pub(super) fn keep_errno<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: the address is that of this thread's error number, which no other thread uses.
    let (errno, before) = unsafe {
        let errno = libc::__errno_location();
        (errno, *errno)
    };
    let result = f();
    // SAFETY: the same address.
    unsafe { *errno = before };
    result
}

/// Returns whether the system shows a thread's CPU time and sends it signals, as a sandbox may not:
/// then no slice would end.
pub(super) fn ends_slices() -> io::Result<()> {
    let thread = thread_number();
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the kernel writes a time. Signal 0 is none.
    let results = unsafe {
        [
            libc::clock_gettime(cpu_clock(thread), time.as_mut_ptr()).into(),
            libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, 0),
        ]
    };
    match results {
        [0, 0] => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A set of CPUs: of 8,192, the maximum that Linux is built for. The C library's type has 1,024,
/// and the kernel writes no set that has fewer than there may be.
struct Cpus([u64; 128]);

impl Cpus {
    const NONE: Cpus = Cpus([0; 128]);

    /// Calls a function of the C library that reads or writes the set.
    fn with<R>(&mut self, f: impl FnOnce(usize, *mut libc::cpu_set_t) -> R) -> R {
        f(size_of_val(&self.0), self.0.as_mut_ptr().cast())
    }
}

/// Returns the CPUs that the calling thread may run on.
pub(super) fn cpus() -> Vec<u32> {
    let mut set = Cpus::NONE;
    // SAFETY: the kernel fills in at most as many bytes as the set has. If it refuses, none is set.
    set.with(|size, set| unsafe { libc::sched_getaffinity(0, size, set) });
    let is_set = |&cpu: &u32| set.0[cpu as usize / 64] >> (cpu % 64) & 1 != 0;
    (0..u64::BITS * set.0.len() as u32).filter(is_set).collect()
}

/// Pins a thread to a CPU. If the system refuses, its CPUs stay the same. A handler may call it.
pub(super) fn pin(thread: libc::pid_t, cpu: u32) {
    let mut set = Cpus::NONE;
    set.0[cpu as usize / 64] = 1 << (cpu % 64);
    // SAFETY: reads as many bytes as the set has.
    keep_errno(|| set.with(|size, set| unsafe { libc::sched_setaffinity(thread, size, set) }));
}

/// The directory in which the kernel describes the threads of this process.
pub(super) struct Threads(OwnedFd);

impl Threads {
    pub fn open() -> io::Result<Threads> {
        let threads = Threads(std::fs::File::open("/proc/self/task")?.into());
        // One that shows nothing would make every thread seem to run.
        match threads.state(thread_number()) {
            Some(_) => Ok(threads),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns whether the thread is blocked in the kernel: neither on a CPU nor waiting for one.
    /// True also if the system does not show it, as if no descriptor is left: the closure that
    /// would close one may be waiting. Allocates nothing.
    pub fn is_blocked(&self, thread: libc::pid_t) -> bool {
        matches!(self.state(thread), Some(b'S' | b'D') | None)
    }

    fn state(&self, thread: libc::pid_t) -> Option<u8> {
        let mut path = [0u8; 24];
        let name = b"/stat";
        let mut digits = [0u8; 12];
        let (mut count, mut rest) = (0, thread.unsigned_abs());
        while rest > 0 || count == 0 {
            digits[count] = b'0' + (rest % 10) as u8;
            rest /= 10;
            count += 1;
        }
        for (to, from) in path
            .iter_mut()
            .zip(digits[..count].iter().rev().chain(name))
        {
            *to = *from;
        }
        // More than the name of a thread, which has 15 bytes and may contain parentheses.
        let mut text = [0u8; 64];
        // SAFETY: a path that ends in 0, and a place of that length.
        let read = unsafe {
            let flags = libc::O_RDONLY | libc::O_CLOEXEC;
            let file = libc::openat(self.0.as_raw_fd(), path.as_ptr().cast(), flags);
            if file < 0 {
                return None;
            }
            let read = libc::read(file, text.as_mut_ptr().cast(), text.len());
            libc::close(file);
            usize::try_from(read).ok()?
        };
        let text = &text[..read];
        let end = text.iter().rposition(|&byte| byte == b')')?;
        text.get(end + 2).copied()
    }
}
