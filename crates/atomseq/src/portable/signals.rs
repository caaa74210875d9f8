//! Quiet: a stretch of one thread's time in which no signal handler runs on it.

use core::marker::PhantomData;

/// While one lives, this thread runs no signal handler (where the system has signals).
///
/// Forks are not kept out here: a child of a process with several threads may find a gate closed for good.
pub struct Quiet {
    #[cfg(unix)]
    mask: libc::sigset_t,
    /// The mask belongs to this thread.
    _not_send: PhantomData<*mut ()>,
}

#[cfg(unix)]
impl Quiet {
    /// Blocks every signal.
    pub fn enter() -> Quiet {
        let mut all = core::mem::MaybeUninit::uninit();
        let mut mask = core::mem::MaybeUninit::uninit();
        // SAFETY: `sigfillset` initialises the set; `pthread_sigmask` with valid arguments cannot fail and writes the old
        // mask.
        let mask = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), mask.as_mut_ptr());
            mask.assume_init()
        };
        Quiet {
            mask,
            _not_send: PhantomData,
        }
    }
}

#[cfg(unix)]
impl Drop for Quiet {
    fn drop(&mut self) {
        // SAFETY: restores the mask that `enter` found.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask, core::ptr::null_mut()) };
    }
}

#[cfg(not(unix))]
impl Quiet {
    /// No signal handler runs on another thread's behalf here.
    pub fn enter() -> Quiet {
        Quiet {
            _not_send: PhantomData,
        }
    }
}
