//! A thread and its signal handler, one lock between them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use lock_api::{Mutex, RawMutex};
use verify_support::fire::{Fired, under_fire};

use crate::exclusion::Guarded;

/// How often each side got the lock.
static THREAD: AtomicU64 = AtomicU64::new(0);
static HANDLER: AtomicU64 = AtomicU64::new(0);
/// How often the handler found it held.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// What came of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    /// Of the handler.
    pub fired: Fired,
    /// How often the handler got the lock.
    pub taken: u64,
    /// How often it found it held.
    pub refused: u64,
}

/// Does the handler hold it, since a delivery before this one?
static KEPT: AtomicBool = AtomicBool::new(false);

/// What the thread does: add, if the lock can be had.
pub fn thread<R: RawMutex>(lock: &Mutex<R, Guarded>) {
    if let Some(guarded) = lock.try_lock() {
        guarded.enter();
        guarded.add(|| ());
        THREAD.fetch_add(1, Relaxed);
        guarded.leave();
    }
}

/// What the handler does: the same, and every other time it keeps the lock until the next delivery.
/// (One that always let go of it before it returned would be as harmless in the middle of a
/// test-and-set as anywhere.)
pub fn handler<R: RawMutex>(lock: &Mutex<R, Guarded>) {
    if let_go(lock) {
        return;
    }
    let Some(guarded) = lock.try_lock() else {
        REFUSED.fetch_add(1, Relaxed);
        return;
    };
    guarded.enter();
    guarded.add(|| ());
    if HANDLER.fetch_add(1, Relaxed) & 1 == 0 {
        guarded.leave();
    } else {
        std::mem::forget(guarded);
        KEPT.store(true, Relaxed);
    }
}

/// Lets go of what the handler has kept; true if it had.
pub fn let_go<R: RawMutex>(lock: &Mutex<R, Guarded>) -> bool {
    let kept = KEPT.swap(false, Relaxed);
    if kept {
        // SAFETY: the words are atomics.
        unsafe { &*lock.data_ptr() }.leave();
        // SAFETY: the handler has locked it, and forgotten the guard.
        unsafe { lock.force_unlock() };
    }
    kept
}

/// Interrupts the thread at least `times`; `judge` is told how many additions there were.
///
/// # Errors
///
/// If anything was lost.
pub fn trial(
    times: usize,
    handler: fn(),
    thread: fn(),
    judge: impl FnOnce(u64) -> Result<(), String>,
) -> Result<Shared, String> {
    let fired = under_fire(times, handler, thread);
    judge(THREAD.load(Relaxed) + HANDLER.load(Relaxed))?;
    Ok(Shared {
        fired,
        taken: HANDLER.load(Relaxed),
        refused: REFUSED.load(Relaxed),
    })
}

/// A trial of a lock by a mechanism, as a static of the thread that it shares with its handlers.
#[macro_export]
macro_rules! shared_with_handlers {
    ($raw:ty, $times:expr) => {{
        ::atomseq::local::per_thread! {
            static LOCK: ::lock_api::Mutex<$raw, $crate::exclusion::Guarded> =
                ::lock_api::Mutex::new($crate::exclusion::Guarded::new());
        }
        $crate::handlers::trial(
            $times,
            || LOCK.with($crate::handlers::handler),
            || LOCK.with($crate::handlers::thread),
            |additions| {
                LOCK.with(|lock| {
                    $crate::handlers::let_go(lock);
                    lock.lock().judge(additions)
                })
            },
        )
    }};
}
