//! Blocking all signals of a thread, so that no handler runs on it and no fork copies its half-done
//! work.

use super::dispositions::{RESERVED_SET, bit, change_mask};
use super::{fork, rseq};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicPtr, Ordering};

/// The function that ends a user-level mask whose last guard was dropped inside a
/// [`SignalsBlocked`]; null until a handler was installed.
static HOOK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sets a hook. When a [`SignalsBlocked`] ends with deferred signals to unblock, it calls `hook`
/// with the mask to continue with, and `hook` sets that mask.
pub fn set_unblocking_hook(hook: fn(u64)) {
    // Release: pairs with the Acquire in `SignalsBlocked::drop`.
    HOOK.store(hook as *mut (), Ordering::Release);
}

/// A guard: while it lives, this thread runs no signal handler, and `fork` on another thread waits
/// for its end.
///
/// A thread creates it before it closes a gate. Otherwise a handler on the same thread that meets
/// the closed gate would wait for the thread it interrupted, and a child forked meanwhile would
/// find the gate closed permanently. Run no user code inside: a fork there would leave the child a
/// closed gate.
///
/// Guards may end in any order: the first start and the last end take effect. The mask found by the
/// first is kept with the thread.
pub struct SignalsBlocked {
    /// The mask belongs to this thread.
    _not_send: PhantomData<*mut ()>,
}

impl SignalsBlocked {
    /// Blocks every signal, then waits a bounded time until no fork is in progress. Costs two
    /// system calls for each use. It uses the raw system call, which also blocks two signals that
    /// glibc would not. `SIGSYS` is blocked too, because its handler is user code. If a sandbox
    /// answers a system call inside (`futex`, `membarrier`, `rt_sigprocmask`) with that signal, the
    /// process ends.
    pub fn enter() -> SignalsBlocked {
        let enter = || {
            fork::enter();
            true
        };
        SignalsBlocked::enter_by(enter).expect("a fork was waited for")
    }

    /// Does the same, but waits for no fork. `None` if one is in progress: no signal is blocked
    /// then.
    pub fn try_enter() -> Option<SignalsBlocked> {
        SignalsBlocked::enter_by(fork::try_enter)
    }

    /// Blocks every signal, and then makes forks wait by `enter`, if no guard of this thread does
    /// yet. `None` if `enter` has returned `false`.
    #[inline]
    fn enter_by(enter: impl FnOnce() -> bool) -> Option<SignalsBlocked> {
        rseq::check_storage();
        let found = set_mask(u64::MAX);
        // Relaxed, here and below: these words belong to this thread, on which no handler runs now.
        let quiets = rseq::quiet().load(Ordering::Relaxed);
        rseq::quiet().store(quiets + 1, Ordering::Relaxed);
        if quiets == 0 {
            rseq::found_mask().store(found, Ordering::Relaxed);
            if !enter() {
                rseq::quiet().store(0, Ordering::Relaxed);
                set_mask(found);
                return None;
            }
        }
        Some(SignalsBlocked {
            _not_send: PhantomData,
        })
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
        // SAFETY: not null, and only `set_unblocking_hook` stores here, a function of this type.
        let hook: fn(u64) = unsafe { core::mem::transmute(hook) };
        hook(mask);
    }
}

/// Returns whether this thread is inside a [`SignalsBlocked`]. If so, the end of a user-level mask
/// unblocks nothing, and the end of the `SignalsBlocked` does.
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

/// A guard: while it lives, no signal handler runs on this thread, except those of `SIGSYS` and of
/// the C library's reserved signals. Unlike [`SignalsBlocked`], it does not make forks wait.
///
/// The reserved signals stay open because a fork or start-up inside may wait for another thread,
/// which may in turn wait for the C library's handler on this one, in `setuid`.
///
/// `SIGSYS` stays open because a sandbox may answer system calls with it, and kills a thread that
/// blocks it. Start-up makes system calls that not every sandbox knows. A handler that re-enters
/// start-up gets a provisional answer.
pub(super) struct Blocked(u64);

impl Blocked {
    pub(super) fn enter() -> Blocked {
        // Signals that are already blocked stay so: the caller may be the handler.
        let others = !(bit(libc::SIGSYS) | RESERVED_SET);
        Blocked(change_mask(libc::SIG_BLOCK, others))
    }
}

impl Blocked {
    /// Leaves these signals unblocked when the guard ends.
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
        // Nothing counts before start-up.
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
