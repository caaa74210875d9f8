//! The signal mask of the kernel: two system calls around what must not be interrupted, which is
//! M94's *sigprocmask* and what programs use today. (In a program with threads its name is
//! `pthread_sigmask`.)

use std::mem::MaybeUninit;
use std::ptr;

/// Signals that are blocked together.
#[derive(Clone, Copy)]
pub struct Signals(libc::sigset_t);

impl Signals {
    /// Those signals; numbers that are none are left out.
    pub fn of(signals: &[libc::c_int]) -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset fills the set in, whatever was there.
        let mut set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        };
        for &signal in signals {
            // SAFETY: the set is a valid one; a number that is no signal's is refused.
            unsafe { libc::sigaddset(&mut set, signal) };
        }
        Self(set)
    }

    /// Blocks them on this thread while the guard lives.
    #[inline(always)]
    pub fn block(&self) -> Blocked {
        let mut before = MaybeUninit::uninit();
        // SAFETY: both point to sets that live through the call, and it fills in the second: it
        // fails only for an operation that is none of its three.
        let before = unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &self.0, before.as_mut_ptr());
            before.assume_init()
        };
        Blocked(before)
    }
}

/// The mask from before.
#[must_use = "dropped at once it protects nothing"]
pub struct Blocked(libc::sigset_t);

impl Drop for Blocked {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the set is one that the kernel gave.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether this thread has a signal blocked.
    fn is_blocked(signal: libc::c_int) -> bool {
        let now = Signals::of(&[]).block();
        // SAFETY: the set is a valid one.
        unsafe { libc::sigismember(&now.0, signal) == 1 }
    }

    #[test]
    fn signals_are_blocked_while_the_guard_lives_and_no_others() {
        let guard = Signals::of(&[libc::SIGALRM, 9_999]).block();
        assert!(is_blocked(libc::SIGALRM) && !is_blocked(libc::SIGUSR1));
        drop(guard);
        assert!(!is_blocked(libc::SIGALRM));
    }
}
