//! Writes traps over landmarks (M94 2.2.1).
//!
//! One thread of a process has a trap in place at a time: a second one could remove a trap that the
//! first still needs. The others wait in their handlers, with all signals blocked that can wait;
//! the holder runs the rest of one sequence.
//!
//! A fork copies the trap that another thread has in place, but not that thread. The child removes
//! it when a thread meets it, or rewrites.

use std::sync::atomic::{AtomicUsize, Ordering};

use atomseq::internals::{change_mask, page_size};

use super::Error;
use crate::arch;
use crate::faults;
use crate::lock::{Held, Lock};

/// Held while a trap is in place.
static LOCK: Lock = Lock::new();

/// The landmark with the trap, or 0. For a child: so it is stored before the page becomes writable,
/// and cleared after it no longer is. Between these system calls the trap is written and removed.
static REWRITTEN: AtomicUsize = AtomicUsize::new(0);

const WRITABLE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;

/// A trap over a landmark.
pub struct Trap {
    landmark: usize,
    _held: Held,
}

impl Trap {
    /// Writes the trap. Waits for a trap of another thread.
    ///
    /// # Errors
    ///
    /// The kernel refused to make the code writable; nothing is changed.
    ///
    /// # Safety
    ///
    /// `landmark` is the address of a landmark. All signals that can wait are blocked: the handler
    /// of one would wait for this thread's own trap.
    pub unsafe fn write(landmark: usize) -> Result<Trap, Error> {
        let held = LOCK.take();
        remove_parents(&held);
        REWRITTEN.store(landmark, Ordering::Relaxed);
        protect(landmark, WRITABLE)?;
        // SAFETY: the page has just been made writable.
        unsafe { arch::write_trap(landmark) };
        Ok(Trap {
            landmark,
            _held: held,
        })
    }

    /// Removes the trap.
    pub fn remove(self) {
        // SAFETY: the page is writable since `write`.
        unsafe { arch::remove_trap(self.landmark) };
        // If the kernel refuses, the code stays writable, as M94 has it.
        let _ = protect(self.landmark, libc::PROT_READ | libc::PROT_EXEC);
        REWRITTEN.store(0, Ordering::Relaxed);
    }
}

/// Removes the trap that a thread of a parent had in place at the fork, if there is one.
pub fn remove_inherited() {
    if !LOCK.is_inherited() {
        return;
    }
    // The handler of one that can wait could wait for this thread.
    let waiting = (1..=64).filter(|signal| faults::can_wait(*signal));
    let blocked = waiting.fold(0, |set, signal| set | 1 << (signal - 1));
    let mask = change_mask(libc::SIG_BLOCK, blocked);
    if let Some(held) = LOCK.try_take() {
        remove_parents(&held);
    }
    change_mask(libc::SIG_SETMASK, mask);
}

/// Removes the trap of a parent's thread, if the lock was taken over from one.
fn remove_parents(held: &Held) {
    let landmark = match held.is_taken_over {
        true => REWRITTEN.load(Ordering::Relaxed),
        false => 0,
    };
    // If the kernel refuses, the trap stays: threads continue behind it.
    if landmark != 0 && protect(landmark, WRITABLE).is_ok() {
        // SAFETY: the page has just been made writable.
        unsafe { arch::remove_trap(landmark) };
        let _ = protect(landmark, libc::PROT_READ | libc::PROT_EXEC);
        REWRITTEN.store(0, Ordering::Relaxed);
    }
}

/// Finds out whether the kernel lets code be rewritten, on a page of code that stays as it is.
pub fn check() -> Result<(), Error> {
    protect(arch::back(), WRITABLE)?;
    protect(arch::back(), libc::PROT_READ | libc::PROT_EXEC)
}

/// Sets the protection of the page of a landmark's first instruction.
fn protect(landmark: usize, protection: libc::c_int) -> Result<(), Error> {
    let size = page_size();
    let page = landmark & !(size - 1);
    // SAFETY: a page of code, which stays readable and executable.
    let result = unsafe { libc::mprotect(page as *mut _, size, protection) };
    if result == 0 {
        return Ok(());
    }
    let errno = std::io::Error::last_os_error().raw_os_error();
    Err(Error::CodeNotWritable {
        errno: errno.unwrap_or(0),
    })
}
