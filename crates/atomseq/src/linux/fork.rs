//! Fork: a child must find every gate open, since the thread that would open a closed one exists only in the parent.
//!
//! So `pthread_atfork`'s prepare handler waits until no thread is inside a `Quiet`, and new ones wait until the
//! fork is over; [`Traffic`] has the agreement. A `fork` or `clone` made by a raw system call runs no such handlers: a
//! child made that way may use atomseq only if no other thread of the parent can have been on a slow path.

use super::rseq;
use super::signals::Blocked;
use super::traffic::Traffic;
use crate::arch::syscall;
use core::sync::atomic::{AtomicU32, Ordering};

static TRAFFIC: Traffic = Traffic(AtomicU32::new(0));

/// How many forks there were from the first process to this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The process that is forking, or was last.
static FORKING: AtomicU32 = AtomicU32::new(0);

/// Tells a gate that a thread of this process has closed from one that a thread of its parent's had.
///
/// In a child, handlers that are older than atomseq's run before it, and may find such gates. So a thread that is in the middle of
/// a fork asks which process it is in.
#[inline]
pub fn generation() -> u32 {
    // Relaxed: changes only while a process has a single thread.
    let generation = GENERATION.load(Ordering::Relaxed);
    let is_forking = rseq::forks().load(Ordering::Relaxed) > 0;
    generation.wrapping_add((is_forking && is_new_process()).into())
}

/// Is this thread the child's already? Asked in the middle of a fork.
#[cold]
fn is_new_process() -> bool {
    // Relaxed: written by this thread, before the fork.
    FORKING.load(Ordering::Relaxed) != process()
}

fn process() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { syscall(libc::SYS_getpid, [0; 6]) as u32 }
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
    // A load and a store: a word of this thread's, on which no handler runs now.
    if rseq::counted().load(Ordering::Relaxed) != 0 {
        rseq::counted().store(0, Ordering::Relaxed);
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
        // Relaxed: no other thread forks now, and this one reads it.
        FORKING.store(process(), Ordering::Relaxed);
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
    // A handler in between would find two generations.
    let _blocked = Blocked::enter();
    // No other thread is here, nor will any that waited for this fork be.
    TRAFFIC.0.store(0, Ordering::Relaxed);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    rseq::forks().store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child in which atomseq's handler has not run yet, but others may have.
    #[test]
    fn a_child_is_a_generation_of_its_own_from_the_first_instruction() {
        let before = generation();
        // SAFETY: what a fork calls, on the thread that forks.
        unsafe { prepare() };
        assert_eq!(generation(), before, "not forked yet");
        let arguments = [libc::SIGCHLD as usize, 0, 0, 0, 0, 0];
        // SAFETY: a fork without handlers; the child calls nothing that needs another thread.
        let pid = unsafe { syscall(libc::SYS_clone, arguments) };
        if pid == 0 {
            let early = generation();
            // SAFETY: as above.
            unsafe { child() };
            let right = [early, generation()] == [before + 1; 2];
            // SAFETY: ends the child.
            unsafe { libc::_exit(if right { 0 } else { 1 }) }
        }
        // SAFETY: as above.
        unsafe { parent() };
        assert_eq!(generation(), before, "the parent's");
        let mut status = 0;
        // SAFETY: waits for the child.
        let ended = unsafe { libc::waitpid(pid as i32, &raw mut status, 0) };
        assert_eq!(ended, pid as i32);
        assert_eq!(status, 0);
    }
}
