//! Signals blocked: a stretch of one thread's time in which no signal handler runs on it and no
//! fork copies its work half done.

use super::dispositions::{RESERVED_SET, bit, change_mask};
use super::{fork, rseq};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicPtr, Ordering};

/// What ends a user-level mask whose last guard was dropped inside a [`SignalsBlocked`]; null until
/// a handler was installed.
static HOOK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// From now on the end of a [`SignalsBlocked`] that has signals to unblock calls `hook` with the
/// mask that the thread goes on with, and `hook` sets that mask.
pub fn set_unblocking_hook(hook: fn(u64)) {
    // Release: pairs with the Acquire in `SignalsBlocked::drop`.
    HOOK.store(hook as *mut (), Ordering::Release);
}

/// While one lives, this thread runs no signal handler, and `fork` on another thread waits for its
/// end.
///
/// A thread enters before it closes a gate: a handler on the same thread that met the closed gate
/// would wait for the very thread it interrupted, and a child forked meanwhile would find the gate
/// closed for good. Run no code of a user's inside: one that forks would leave the child a closed
/// gate.
///
/// They may end in any order: the first one's start and the last one's end count. What the first
/// one found is kept with the thread.
pub struct SignalsBlocked {
    /// The mask belongs to this thread.
    _not_send: PhantomData<*mut ()>,
}

impl SignalsBlocked {
    /// Blocks every signal (by the raw system call: two that glibc would leave open as well), then
    /// waits a little until no fork is under way. Two system calls a use. `SIGSYS` is one of them,
    /// for its handler is the user's code: a sandbox that answers a system call inside (`futex`,
    /// `membarrier`, `rt_sigprocmask`) by that signal ends the process.
    pub fn enter() -> SignalsBlocked {
        let found = set_mask(u64::MAX);
        // Relaxed loads and stores, here and below: words of this thread's, on which no handler
        // runs now.
        let quiets = rseq::quiet().load(Ordering::Relaxed);
        rseq::quiet().store(quiets + 1, Ordering::Relaxed);
        if quiets == 0 {
            rseq::found_mask().store(found, Ordering::Relaxed);
            fork::enter();
        }
        SignalsBlocked {
            _not_send: PhantomData,
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        let quiets = rseq::quiet().load(Ordering::Relaxed) - 1;
        rseq::quiet().store(quiets, Ordering::Relaxed);
        if quiets > 0 {
            return;
        }
        fork::leave();
        let found = rseq::found_mask().load(Ordering::Relaxed);
        let deferred = rseq::take_deferred();
        let mask = found & !deferred.unwrap_or(0);
        // Acquire: pairs with the Release in `set_unblocking_hook`.
        let hook = HOOK.load(Ordering::Acquire);
        if deferred.is_none() || hook.is_null() {
            set_mask(mask);
            return;
        }
        // SAFETY: only `set_unblocking_hook` stores here, a function of this type.
        let hook: fn(u64) = unsafe { core::mem::transmute(hook) };
        hook(mask);
    }
}

/// Is this thread inside a [`SignalsBlocked`]? The end of a user-level mask then unblocks nothing:
/// the end of the `SignalsBlocked` does.
pub fn are_signals_blocked() -> bool {
    rseq::quiet().load(Ordering::Relaxed) > 0
}

/// Returns the signal mask that the end of this thread's [`SignalsBlocked`] restores; `None`
/// outside of one.
pub fn mask_to_restore() -> Option<u64> {
    // Relaxed: words of this thread's, on which no handler runs if there is a mask to restore.
    are_signals_blocked().then(|| rseq::found_mask().load(Ordering::Relaxed))
}

/// Makes the end of this thread's [`SignalsBlocked`] leave `signals` blocked as well.
pub fn leave_blocked(signals: u64) {
    debug_assert!(are_signals_blocked());
    // Relaxed: as in `mask_to_restore`.
    let found = rseq::found_mask().load(Ordering::Relaxed);
    rseq::found_mask().store(found | signals, Ordering::Relaxed);
}

/// No signal handler runs on this thread while one lives, but for one of `SIGSYS` and the C
/// library's own. As [`SignalsBlocked`], without a word to forks.
///
/// A fork or start-up may wait for another thread inside, which may wait for the C library's
/// handler on this one: in `setuid`.
///
/// A sandbox may answer system calls by `SIGSYS`, and kills a thread that has blocked it. Start-up
/// asks the kernel what not every sandbox knows; where a handler comes back in, it is turned away.
pub(super) struct Blocked(u64);

impl Blocked {
    pub(super) fn enter() -> Blocked {
        // What is blocked already stays so: this may be the handler.
        let others = !(bit(libc::SIGSYS) | RESERVED_SET);
        Blocked(change_mask(libc::SIG_BLOCK, others))
    }
}

impl Blocked {
    /// Its end leaves these signals unblocked.
    pub(super) fn leave_open(&mut self, signals: u64) {
        self.0 &= !signals;
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        set_mask(self.0);
    }
}

fn set_mask(mask: u64) -> u64 {
    change_mask(libc::SIG_SETMASK, mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::kernel_mask as current_mask;

    #[test]
    fn quiet_blocks_what_can_be_blocked_and_restores_even_when_nested() {
        let before = current_mask();
        let all = !(1u64 << (libc::SIGKILL - 1) | 1u64 << (libc::SIGSTOP - 1));
        {
            let _outer = SignalsBlocked::enter();
            assert_eq!(current_mask(), all);
            drop(SignalsBlocked::enter());
            assert_eq!(current_mask(), all);
        }
        assert_eq!(current_mask(), before);
    }

    #[test]
    fn start_up_and_forks_leave_open_what_other_threads_wait_for() {
        let before = current_mask();
        let blocked = Blocked::enter();
        for signal in 1..=64 {
            let is_open = [libc::SIGSYS, libc::SIGKILL, libc::SIGSTOP].contains(&signal)
                || RESERVED_SET & bit(signal) != 0;
            assert_eq!(current_mask() & bit(signal) == 0, is_open, "{signal}");
        }
        drop(blocked);
        assert_eq!(current_mask(), before);
    }

    #[test]
    fn the_last_of_several_counts_whichever_it_is() {
        // Before it, there is nothing that counts.
        crate::platform::start();
        let before = current_mask();
        let counts_for_forks =
            || rseq::counted().load(Ordering::Relaxed) != 0 && are_signals_blocked();
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            let mut quiets = [const { None }; 3];
            quiets.fill_with(|| Some(SignalsBlocked::enter()));
            let all = current_mask();
            for index in order {
                assert_eq!(current_mask(), all, "{order:?}, before {index}");
                assert!(counts_for_forks(), "{order:?}, before {index}");
                quiets[index] = None;
            }
            assert_eq!(current_mask(), before, "{order:?}");
            assert!(!counts_for_forks(), "{order:?}");
        }
    }
}
