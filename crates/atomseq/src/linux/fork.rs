//! Fork: a child must find every gate open, since the thread that would open a closed one exists only in the parent.
//!
//! So `pthread_atfork`'s prepare handler waits until no thread is inside a `Quiet`, and new ones wait until the
//! fork is over; [`Traffic`](super::traffic::Traffic) has the agreement. A `fork` or `clone` made by a raw system call runs no such
//! handlers: what another thread was just doing may be half done in the child, which takes over the gates (see `process.rs`).

use super::signals::Blocked;
use super::{process, rseq};
use core::sync::atomic::Ordering;

/// Counts this thread as one that may close gates, from the start of its first `Quiet` on. It is not counted while
/// this thread itself is forking (an atfork handler or a signal handler runs on it between prepare and parent or child): it
/// would wait for itself, and has opened its gates again before the fork goes on. Nor is a thread that another's fork has
/// kept waiting for long. Called with signals blocked.
pub(super) fn enter() {
    let own = process::own().filter(|_| rseq::forks().load(Ordering::Relaxed) == 0);
    // Where it is counted: a child made by a raw fork counts nobody.
    let counted = own.filter(|own| own.traffic.enter());
    let generation = counted.map_or(0, process::Own::generation);
    rseq::counted().store(generation, Ordering::Relaxed);
}

/// Undoes an [`enter`], at the end of the thread's last `Quiet`.
pub(super) fn leave() {
    let counted = rseq::counted().load(Ordering::Relaxed);
    if counted == 0 {
        return;
    }
    // A load and a store: a word of this thread's, on which no handler runs now.
    rseq::counted().store(0, Ordering::Relaxed);
    if let Some(own) = process::own().filter(|own| own.generation() == counted) {
        own.traffic.leave();
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
    if let (0, Some(own)) = (rseq::forks().load(Ordering::Relaxed), process::own()) {
        own.traffic.fork();
        process::fork();
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
    if let (1, Some(own)) = (forks, process::own()) {
        own.traffic.forked();
    }
}

unsafe extern "C" fn child() {
    // A handler in between would find two generations, where the kernel has not wiped the first.
    let _blocked = Blocked::enter();
    process::wipe();
    rseq::forks().store(0, Ordering::Relaxed);
}
