//! Fork: a child must find every gate open, since the thread that would open a closed one exists only in the parent.
//!
//! So `pthread_atfork`'s prepare handler waits until no thread is inside a `Quiet`, and new ones wait until the
//! fork is over; [`Traffic`] has the agreement. A `fork` or `clone` made by a raw system call runs no such handlers: a
//! child made that way may use atomseq only if no other thread of the parent can have been on a slow path.

use super::rseq;
use super::signals::Blocked;
use super::traffic::Traffic;
use core::sync::atomic::{AtomicU32, Ordering};

static TRAFFIC: Traffic = Traffic(AtomicU32::new(0));

/// How many forks there were from the first process to this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Tells a gate that a thread of this process has closed from one that a thread of its parent's had.
#[inline]
pub fn generation() -> u32 {
    // Relaxed: changes only while a process has a single thread.
    GENERATION.load(Ordering::Relaxed)
}

/// Counts this thread as one that may close gates, from the start of its first `Quiet` on. It is not counted while
/// this thread itself is forking (an atfork handler or a signal handler runs on it between prepare and parent or child): it
/// would wait for itself, and has opened its gates again before the fork goes on. Nor is a thread that another's fork has
/// kept waiting for long. Called with signals blocked.
pub(super) fn enter() {
    let counted = rseq::forks().load(Ordering::Relaxed) == 0 && TRAFFIC.enter();
    rseq::counted().store(counted.into(), Ordering::Relaxed);
}

/// Undoes an [`enter`], at the end of the thread's last `Quiet`.
pub(super) fn leave() {
    if rseq::counted().swap(0, Ordering::Relaxed) != 0 {
        TRAFFIC.leave();
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
    // A handler in between would wait for this fork, or close a gate uncounted while another fork is under way.
    let _blocked = Blocked::enter();
    if rseq::forks().load(Ordering::Relaxed) == 0 {
        TRAFFIC.fork();
    }
    rseq::forks().fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn parent() {
    let _blocked = Blocked::enter();
    let forks = rseq::forks().load(Ordering::Relaxed);
    if forks == 0 {
        // Installed by another thread in the middle of this fork: there was no prepare to undo.
        return;
    }
    rseq::forks().store(forks - 1, Ordering::Relaxed);
    if forks == 1 {
        TRAFFIC.forked();
    }
}

unsafe extern "C" fn child() {
    // No other thread is here, nor will any that waited for this fork be.
    TRAFFIC.0.store(0, Ordering::Relaxed);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    rseq::forks().store(0, Ordering::Relaxed);
}
