//! Writes traps over landmarks (M94 2.2.1).
//!
//! One thread of a process has a trap in place at a time: a second one could remove a trap that the
//! first still needs. The others wait in their handlers, with all signals blocked that can wait;
//! the holder runs the rest of one sequence.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use atomseq::internals::page_size;

use super::Error;
use crate::arch;

/// The process whose thread has a trap in place, or 0. A child of a fork finds its parent's number,
/// and takes the lock: the thread that held it is not in the child.
static HOLDER: AtomicU32 = AtomicU32::new(0);

/// How long a thread waits before it looks again whether another one's trap is gone.
const PAUSE: Duration = Duration::from_micros(20);

const WRITABLE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;

/// A trap over a landmark.
pub struct Trap(usize);

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
        lock();
        if let Err(error) = protect(landmark, WRITABLE) {
            unlock();
            return Err(error);
        }
        // SAFETY: the page has just been made writable.
        unsafe { arch::write_trap(landmark) };
        Ok(Trap(landmark))
    }

    /// Removes the trap.
    pub fn remove(self) {
        // SAFETY: the page is writable since `write`.
        unsafe { arch::remove_trap(self.0) };
        // If the kernel refuses, the code stays writable, as M94 has it.
        let _ = protect(self.0, libc::PROT_READ | libc::PROT_EXEC);
        unlock();
    }
}

/// Finds out whether the kernel lets code be rewritten, on a page of code that stays as it is.
pub fn check() -> Result<(), Error> {
    protect(arch::back(), WRITABLE)?;
    protect(arch::back(), libc::PROT_READ | libc::PROT_EXEC)
}

fn lock() {
    let own = std::process::id();
    loop {
        let holder = HOLDER.load(Ordering::Relaxed);
        // Acquire: pairs with the Release of `unlock`, whose thread has restored its landmark.
        let take = || HOLDER.compare_exchange(holder, own, Ordering::Acquire, Ordering::Relaxed);
        if holder != own && take().is_ok() {
            return;
        }
        // Not a mere yield: the holder's priority may be lower.
        std::thread::sleep(PAUSE);
    }
}

fn unlock() {
    // Release: pairs with the Acquire of `lock`.
    HOLDER.store(0, Ordering::Release);
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
