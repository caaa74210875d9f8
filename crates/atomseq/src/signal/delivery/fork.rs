//! Forks: a child has no waiting signals of its parent's.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::controls;
use super::install::{lock, unlock};
use super::words::Words;
use crate::arch::thread_pointer;
use crate::platform::{change_mask, generation};

static WATCHED: AtomicBool = AtomicBool::new(false);

/// The thread that forks, from prepare to parent or child, and its mask. It holds the lock.
static FORKING: AtomicUsize = AtomicUsize::new(0);
static MASK: AtomicU64 = AtomicU64::new(0);

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

/// No child inherits handlers that are half changed, or a lock that nobody will give back. All signals are blocked:
/// the handler of one may fork too.
unsafe extern "C" fn prepare() {
    let mask = change_mask(libc::SIG_BLOCK, u64::MAX);
    lock();
    MASK.store(mask, Ordering::Relaxed);
    FORKING.store(thread_pointer(), Ordering::Relaxed);
}

unsafe extern "C" fn parent() {
    if !was_prepared() {
        return;
    }
    FORKING.store(0, Ordering::Relaxed);
    let mask = MASK.load(Ordering::Relaxed);
    unlock();
    change_mask(libc::SIG_SETMASK, mask);
}

/// The kernel gives a child no waiting signals, and what the thread keeps is marked as the
/// parent's. So what deferral has blocked is unblocked, and nothing is left of the signal that a
/// rollforward under way was for. The masks that the thread is inside stay: their guards are here
/// too. What was unblocked stays noted: a handler of others that forks may return to code that has
/// it blocked, and the end of the mask unblocks it there.
unsafe extern "C" fn child() {
    // If it was not, another thread has held the lock, which is the parent's alone now.
    let mut mask = if was_prepared() {
        MASK.load(Ordering::Relaxed)
    } else {
        change_mask(libc::SIG_BLOCK, 0)
    };
    FORKING.store(0, Ordering::Relaxed);
    unlock();
    if !controls::is_off(controls::FORK) {
        let words = Words::of_this_thread();
        words.rollforward.forget_signal();
        mask &= !words.added.load(Ordering::Relaxed);
    }
    change_mask(libc::SIG_SETMASK, mask);
}
