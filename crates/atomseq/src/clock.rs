//! The time, for what asks how long ago something was.
//!
//! `std`'s clocks panic where the system refuses to tell the time: a sandbox without a vDSO may do
//! so. Waits, destructors and signal handlers ask here, where a refusal is an answer.

use std::time::Duration;

/// How much time has passed since some moment in the past, the same one for all threads. It never
/// goes back. `None`: the system refuses to tell. Async-signal-safe.
pub(crate) fn now() -> Option<Duration> {
    #[cfg(test)]
    if refusal::is_on() {
        return None;
    }
    read()
}

#[cfg(unix)]
fn read() -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills `time` in, or returns an error.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    let (seconds, nanoseconds) = (time.tv_sec.try_into(), time.tv_nsec.try_into());
    (result == 0).then_some(Duration::new(seconds.ok()?, nanoseconds.ok()?))
}

#[cfg(not(unix))]
fn read() -> Option<Duration> {
    elsewhere::read()
}

/// Systems that do not refuse. Their instants only say how far apart they are, so the first one is
/// kept.
#[cfg(not(unix))]
mod elsewhere {
    use core::cell::UnsafeCell;
    use core::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    /// 0 not written yet, 1 being written, 2 written.
    static STATE: AtomicU32 = AtomicU32::new(0);
    static FIRST: First = First(UnsafeCell::new(None));

    struct First(UnsafeCell<Option<Instant>>);

    // SAFETY: written by the one thread that moved STATE from 0 to 1, before the Release that makes
    // it readable.
    unsafe impl Sync for First {}

    pub(super) fn read() -> Option<Duration> {
        let now = Instant::now();
        // Acquire: pairs with the Release below. Relaxed: only the writer goes on from there.
        while STATE.load(Ordering::Acquire) != 2 {
            let order = Ordering::Relaxed;
            if STATE.compare_exchange(0, 1, order, order).is_ok() {
                // SAFETY: this thread alone writes, and no other one reads before the Release.
                unsafe { *FIRST.0.get() = Some(now) };
                STATE.store(2, Ordering::Release);
            }
            core::hint::spin_loop();
        }
        // SAFETY: written, and never again.
        let first = unsafe { *FIRST.0.get() };
        first.map(|first| now.saturating_duration_since(first))
    }
}

/// A system that refuses, for unit tests.
#[cfg(test)]
pub(crate) mod refusal {
    use std::cell::Cell;

    thread_local! {
        static ON: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn is_on() -> bool {
        ON.get()
    }

    /// Runs `without_clock` on this thread, to which nobody tells the time meanwhile.
    pub(crate) fn during<R>(without_clock: impl FnOnce() -> R) -> R {
        struct On;

        impl Drop for On {
            fn drop(&mut self) {
                ON.set(false);
            }
        }

        ON.set(true);
        let _on = On;
        without_clock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_or_is_refused() {
        let before = now().expect("no sandbox");
        std::thread::sleep(Duration::from_millis(2));
        assert!(now().expect("no sandbox") >= before + Duration::from_millis(2));
        assert_eq!(refusal::during(now), None);
        assert!(now().is_some());
    }
}
