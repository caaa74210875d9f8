//! Forks: a child has no waiting signals of its parent's.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::controls;
use super::install::{BLOCKED_WHILE_LOCKED, lock, unlock, unlock_for_parent};
use super::words::Words;
use crate::arch::thread_pointer;
use crate::platform::{change_mask, generation};

static WATCHED: AtomicBool = AtomicBool::new(false);

/// The thread that forks, from prepare to parent or child, and its mask. It holds the lock.
static FORKING: AtomicUsize = AtomicUsize::new(0);
static MASK: AtomicU64 = AtomicU64::new(0);
/// How many forks it has begun inside that one: in the handler of a fault that an atfork handler had.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// Differs in the child of a fork, also of one that calls no handlers (`_Fork`).
pub fn process() -> u32 {
    match controls::is_off(controls::FORK) {
        true => 0,
        false => generation(),
    }
}

/// Has `prepare` run for the fork that this thread makes? Not if the handlers were installed in the middle of it.
fn was_prepared() -> bool {
    FORKING.load(Ordering::Relaxed) == thread_pointer()
}

/// From now on, forks are watched. Called with the lock held.
pub fn watch() -> Result<(), i32> {
    if WATCHED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    // SAFETY: three handlers that live as long as the program (objects that hold atomseq are not unloaded).
    match unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) } {
        0 => Ok(()),
        errno => {
            WATCHED.store(false, Ordering::Relaxed);
            Err(errno)
        }
    }
}

/// No child inherits handlers that are half changed by another thread, or a lock that nobody will give back. All signals but faults
/// are blocked until the fork is over: in the child nothing may be delivered before that has forgotten what was its parent's.
/// A fork inside a fork finds them blocked, unless the handler that makes it wants otherwise.
unsafe extern "C" fn prepare() {
    let mask = change_mask(libc::SIG_BLOCK, u64::MAX);
    lock();
    let blocked = if was_prepared() {
        INSIDE.fetch_add(1, Ordering::Relaxed);
        mask
    } else {
        MASK.store(mask, Ordering::Relaxed);
        FORKING.store(thread_pointer(), Ordering::Relaxed);
        mask | BLOCKED_WHILE_LOCKED
    };
    change_mask(libc::SIG_SETMASK, blocked);
}

/// Ends what `prepare` has begun. `mask` is the thread's, now that all signals are blocked; returns the one that it goes on with.
fn end(mask: u64) -> u64 {
    let inside = INSIDE.load(Ordering::Relaxed);
    let mask = if inside > 0 {
        INSIDE.store(inside - 1, Ordering::Relaxed);
        mask
    } else {
        FORKING.store(0, Ordering::Relaxed);
        MASK.load(Ordering::Relaxed)
    };
    unlock();
    mask
}

unsafe extern "C" fn parent() {
    if was_prepared() {
        let mask = change_mask(libc::SIG_BLOCK, u64::MAX);
        change_mask(libc::SIG_SETMASK, end(mask));
    }
}

/// The kernel gives a child no waiting signals, and what the thread keeps is marked as the
/// parent's. So what deferral has blocked is unblocked, and nothing is left of the signal that a
/// rollforward under way was for. The masks that the thread is inside stay: their guards are here
/// too. What was unblocked stays noted: a handler of others that forks may return to code that has
/// it blocked, and the end of the mask unblocks it there.
unsafe extern "C" fn child() {
    let mut mask = change_mask(libc::SIG_BLOCK, u64::MAX);
    if was_prepared() {
        mask = end(mask);
    } else {
        FORKING.store(0, Ordering::Relaxed);
        INSIDE.store(0, Ordering::Relaxed);
        unlock_for_parent();
    }
    if !controls::is_off(controls::FORK) {
        let words = Words::of_this_thread();
        words.rollforward.forget_signal();
        mask &= !words.added.load(Ordering::Relaxed);
    }
    change_mask(libc::SIG_SETMASK, mask);
}
