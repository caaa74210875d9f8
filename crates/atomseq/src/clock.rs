//! The monotonic time.
//!
//! `std`'s clocks panic if the system refuses the time, as a sandbox without a vDSO may. Waits,
//! destructors and signal handlers read the time here, where a refusal is a result.

use std::time::Duration;

/// Returns the time since a fixed moment in the past, the same for all threads. It never decreases.
/// `None`: the system refuses. Async-signal-safe.
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
    // SAFETY: `time` is a valid `timespec` to write to.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    let (seconds, nanoseconds) = (time.tv_sec.try_into(), time.tv_nsec.try_into());
    (result == 0).then_some(Duration::new(seconds.ok()?, nanoseconds.ok()?))
}

#[cfg(not(unix))]
fn read() -> Option<Duration> {
    elsewhere::read()
}

/// For systems that never refuse. Their `Instant`s report only differences, so the first one is
/// kept.
#[cfg(not(unix))]
mod elsewhere {
    use core::cell::UnsafeCell;
    use core::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    /// 0: not yet written; 1: being written; 2: written.
    static STATE: AtomicU32 = AtomicU32::new(0);
    static FIRST: First = First(UnsafeCell::new(None));

    struct First(UnsafeCell<Option<Instant>>);

    // SAFETY: only the thread that moved STATE from 0 to 1 writes, before its Release store of 2.
    // Readers first load 2 with Acquire.
    unsafe impl Sync for First {}

    pub(super) fn read() -> Option<Duration> {
        let now = Instant::now();
        // Acquire: pairs with the Release store below. Relaxed: only the thread that succeeds
        // continues, and it reads nothing of another's.
        while STATE.load(Ordering::Acquire) != 2 {
            let order = Ordering::Relaxed;
            if STATE.compare_exchange(0, 1, order, order).is_ok() {
                // SAFETY: only this thread writes, and no thread reads before the Release store of
                // 2.
                unsafe { *FIRST.0.get() = Some(now) };
                STATE.store(2, Ordering::Release);
            }
            core::hint::spin_loop();
        }
        // SAFETY: STATE is 2, so the value is written and never changes again.
        let first = unsafe { *FIRST.0.get() };
        first.map(|first| now.saturating_duration_since(first))
    }
}

/// Simulates a system that refuses the time.
#[cfg(test)]
pub(crate) mod refusal {
    use std::cell::Cell;

    thread_local! {
        static ON: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn is_on() -> bool {
        ON.get()
    }

    /// Runs `without_clock` while the clock refuses the time on this thread.
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
