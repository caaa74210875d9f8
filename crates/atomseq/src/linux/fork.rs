//! Fork: a child must find every gate open, since the thread that would open a closed one exists only in the parent.
//!
//! So `pthread_atfork`'s prepare handler waits until no thread is inside a `Quiet`, and new ones wait until the
//! fork is over. A `fork` or `clone` made by a raw system call runs no such handlers: a child made that way
//! may use atomseq only if no other thread of the parent can have been on a slow path.

use super::futex::{wait, wake_all};
use super::rseq;
use core::sync::atomic::{AtomicU32, Ordering};

/// Low 20 bits: threads inside a `Quiet`. The rest: forks under way.
static TRAFFIC: AtomicU32 = AtomicU32::new(0);
const FORK: u32 = 1 << 20;
const QUIET: u32 = FORK - 1;

/// Counts this thread as one that may close gates. `false`: not counted, since this thread itself is forking (an
/// atfork handler or a signal handler runs on it between prepare and parent or child): it would wait for itself,
/// and has opened its gates again before the fork goes on.
pub(super) fn enter() -> bool {
    if rseq::forks().load(Ordering::Relaxed) != 0 {
        return false;
    }
    let mut traffic = TRAFFIC.load(Ordering::Relaxed);
    loop {
        if traffic >= FORK {
            wait(&TRAFFIC, traffic);
            traffic = TRAFFIC.load(Ordering::Relaxed);
            continue;
        }
        // Acquire: pairs with the Release in `parent`, so that what ran during the fork is seen.
        match TRAFFIC.compare_exchange_weak(
            traffic,
            traffic + 1,
            Ordering::Acquire,
            Ordering::Relaxed,
        ) {
            Ok(_) => return true,
            Err(now) => traffic = now,
        }
    }
}

/// Undoes a counted [`enter`].
pub(super) fn leave() {
    // Release: pairs with the Acquire in `prepare`: the child's copy holds all that was done inside.
    let before = TRAFFIC.fetch_sub(1, Ordering::Release);
    if before >= FORK && before & QUIET == 1 {
        wake_all(&TRAFFIC);
    }
}

/// Registers the handlers; `Err` holds an error number.
pub(super) fn install() -> Result<(), i32> {
    // SAFETY: three handlers that live as long as the program (objects that hold atomseq are not unloaded).
    match unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) } {
        0 => Ok(()),
        errno => Err(errno),
    }
}

unsafe extern "C" fn prepare() {
    // The nesting first: a signal handler from here on must not wait for this fork.
    rseq::forks().fetch_add(1, Ordering::Relaxed);
    // Acquire: pairs with the Release in `leave`.
    let mut traffic = TRAFFIC.fetch_add(FORK, Ordering::Acquire) + FORK;
    while traffic & QUIET != 0 {
        wait(&TRAFFIC, traffic);
        traffic = TRAFFIC.load(Ordering::Acquire);
    }
}

unsafe extern "C" fn parent() {
    if rseq::forks().load(Ordering::Relaxed) == 0 {
        // Installed by another thread in the middle of this fork: there was no prepare to undo.
        return;
    }
    // Release: pairs with the Acquire in `enter`.
    let before = TRAFFIC.fetch_sub(FORK, Ordering::Release);
    rseq::forks().fetch_sub(1, Ordering::Relaxed);
    if before < 2 * FORK {
        wake_all(&TRAFFIC);
    }
}

unsafe extern "C" fn child() {
    // No other thread is here: not those that forked at the same time, nor those that wait.
    TRAFFIC.store(0, Ordering::Relaxed);
    rseq::forks().store(0, Ordering::Relaxed);
}
