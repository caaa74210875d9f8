//! A timer of one thread: `CLOCK_MONOTONIC`, with a signal to that very thread at every tick.
//!
//! An interval timer (`ITIMER_PROF`) ticks with the scheduler, 250 times a second on common
//! kernels, and interrupts any thread of the process. This one has the resolution of the hardware,
//! and runs while its thread sleeps: it measures wall time.

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Returns nanoseconds since a fixed moment in the past. Async-signal-safe.
pub fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns the CPU time of this thread, in nanoseconds.
pub fn on_cpu() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = MaybeUninit::uninit();
    // SAFETY: both clocks exist on every Linux, and the time is written there.
    let time: libc::timespec = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A timer of the calling thread, deleted when it is dropped.
pub struct Timer {
    id: libc::timer_t,
    /// The timer interrupts the thread that created it and is dropped on that thread, so that none
    /// of its signals arrives later.
    _not_send: PhantomData<*mut ()>,
}

impl Timer {
    /// Creates a timer that does not tick yet.
    ///
    /// # Errors
    ///
    /// The kernel's, for example if the limit on queued signals is reached.
    pub fn new(signal: libc::c_int) -> io::Result<Timer> {
        // SAFETY: all zeroes are valid in every field.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        // SAFETY: no arguments, no effects.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut id = MaybeUninit::uninit();
        // SAFETY: the event is complete, and the id is written if the call succeeds.
        let id = unsafe {
            match libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, id.as_mut_ptr()) {
                0 => id.assume_init(),
                _ => return Err(io::Error::last_os_error()),
            }
        };
        Ok(Timer {
            id,
            _not_send: PhantomData,
        })
    }

    /// Starts the ticks, `interval` nanoseconds apart. Returns the time of the call: the ticks
    /// come at whole intervals after it.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn start(&self, interval: u64) -> io::Result<u64> {
        let start = now();
        let setting = libc::itimerspec {
            it_value: timespec(start + interval),
            it_interval: timespec(interval),
        };
        // SAFETY: the timer exists until it is dropped, and the setting is complete.
        let set = unsafe {
            libc::timer_settime(self.id, libc::TIMER_ABSTIME, &setting, std::ptr::null_mut())
        };
        match set {
            0 => Ok(start),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Stops the ticks. No handler runs for this timer after the call: the kernel delivers a
    /// pending tick before the call returns.
    pub fn stop(&mut self) {
        let never = libc::itimerspec {
            it_value: timespec(0),
            it_interval: timespec(0),
        };
        // SAFETY: the timer exists until it is dropped, and the setting is complete.
        unsafe { libc::timer_settime(self.id, 0, &never, std::ptr::null_mut()) };
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer exists and is not used afterwards. The call cannot fail.
        unsafe { libc::timer_delete(self.id) };
    }
}

fn timespec(nanoseconds: u64) -> libc::timespec {
    // SAFETY: all zeroes are valid; some targets have padding that a literal cannot set.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    time.tv_sec = (nanoseconds / 1_000_000_000) as _;
    time.tv_nsec = (nanoseconds % 1_000_000_000) as _;
    time
}
