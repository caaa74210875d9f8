//! A timer of one thread: its signal comes to the thread that started it, and to no other. Or one
//! that calls a function when the time is up.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};
use std::{ptr, thread};

/// The timer of the thread that started it, while it lives.
#[derive(Debug)]
pub struct Timer(Handle);

/// The timer as its signal's handler sees it.
#[derive(Clone, Copy, Debug)]
pub struct Handle(libc::timer_t);

impl Timer {
    /// Makes one that raises `signal` in this thread as soon as it is set; `None` if the system has
    /// no more for some seconds.
    pub fn new(signal: c_int) -> Option<Timer> {
        Timer::with_value(signal, 0)
    }

    /// Makes one whose signal comes with a value.
    pub fn with_value(signal: c_int, value: usize) -> Option<Timer> {
        // SAFETY: numbers and null pointers, for which zero is a value.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_value.sival_ptr = value as *mut libc::c_void;
        // SAFETY: asks for a number.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        // SAFETY: the thread exists.
        unsafe { Timer::made(event) }
    }

    /// Makes one that calls `function` with `value`, in a thread that the C library starts for it;
    /// `None` if the system has no more. Before that, no thread runs code of this program for it.
    pub fn calling(function: extern "C" fn(libc::sigval), value: usize) -> Option<Timer> {
        // SAFETY: numbers and null pointers, for which zero is a value.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD;
        event.sigev_value.sival_ptr = value as *mut libc::c_void;
        // The function has no name in the crate `libc`: it shares its place with this number.
        let place = (&raw mut event.sigev_notify_thread_id).cast::<extern "C" fn(libc::sigval)>();
        // SAFETY: a union of the two begins there, which is aligned to pointers. Behind it lie the
        // thread's attributes: null, for the default ones.
        unsafe { place.write(function) };
        // SAFETY: a function of this type is in its place.
        unsafe { Timer::made(event) }
    }

    /// # Safety
    /// The event is one that `timer_create` can bring about.
    unsafe fn made(mut event: libc::sigevent) -> Option<Timer> {
        // A timer takes one of the queued signals that all programs of the user share.
        const PATIENCE: Duration = Duration::from_secs(20);
        let since = Instant::now();
        loop {
            let mut timer = MaybeUninit::uninit();
            // SAFETY: the caller's promise; room for the timer, which is only read after success.
            unsafe {
                if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, timer.as_mut_ptr()) == 0 {
                    return Some(Timer(Handle(timer.assume_init())));
                }
            }
            if since.elapsed() > PATIENCE {
                return None;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Makes one that raises `signal` in this thread after each `period`; `None` if the system has
    /// no more.
    pub fn start(signal: c_int, period: Duration) -> Option<Timer> {
        let timer = Timer::new(signal)?;
        timer.0.repeat(period);
        Some(timer)
    }

    /// What its handler may use, as long as the timer lives.
    pub fn handle(&self) -> Handle {
        self.0
    }
}

impl Handle {
    /// Lets it expire once, after so long. Async-signal-safe.
    ///
    /// # Panics
    ///
    /// If the timer lives no more.
    pub fn once(self, after: Duration) {
        self.set(after, Duration::ZERO);
    }

    /// Lets it expire after each `period`.
    ///
    /// # Panics
    ///
    /// If the timer lives no more.
    pub fn repeat(self, period: Duration) {
        self.set(period, period);
    }

    fn set(self, first: Duration, period: Duration) {
        let time = |time: Duration| libc::timespec {
            tv_sec: time.as_secs() as _,
            tv_nsec: time.subsec_nanos() as libc::c_long,
        };
        let times = libc::itimerspec {
            it_interval: time(period),
            it_value: time(first),
        };
        // SAFETY: valid times; a timer that was deleted is an error.
        let set = unsafe { libc::timer_settime(self.0, 0, &times, ptr::null_mut()) };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: made by `made`, deleted once. A last expiry may be on its way; by the
        // return, it was delivered.
        unsafe { libc::timer_delete(self.0.0) };
    }
}
