//! Revoking a stopped holder, and rolling back its changes.
//!
//! The words that a log names are valid as long as its exchange is not over, that is, until the
//! version advances: the call that wrote the log does not return before that. The call may never
//! return, because its thread has exited or a handler has left it by `siglongjmp`. Then the borrow
//! of the structure never ended either, or the rules of [`siglongjmp`](crate::signal::siglongjmp)
//! keep the structure in place.

use std::sync::atomic::{AtomicU64 as Count, Ordering::Relaxed};

use super::RevocableLock;
use super::sequences::{roll_back, roll_back_here};
use crate::dcas::lock::{
    self, BELOW_VERSION, CLAIM, DONE, HELD, ID, LOCKED, LOST, STATE, UNLOGGED, VERSION,
};
use crate::dcas::revokers::Revoker;
use crate::platform;
use crate::sync::{AtomicU64, Ordering};

/// How many revocations this process made, and how many of them rolled a change back.
pub(in crate::dcas) static REVOKED: Count = Count::new(0);
pub(in crate::dcas) static ROLLBACKS: Count = Count::new(0);

impl RevocableLock {
    /// Waits until the lock differs from what was seen, for a limited time; after that, revokes it.
    /// Returns whether this thread revoked the holder or tried to.
    #[cold]
    pub(super) fn wait_or_revoke(&self, seen: u64) -> bool {
        if self.roll_back_here(seen) {
            return true;
        }
        let is_stuck = !lock::wait_for_change(&self.lock, seen);
        if is_stuck {
            self.revoke(seen);
        }
        is_stuck
    }

    /// Rolls the holder back without a fence, if the holder's CPU is this one and it therefore does
    /// not run: a signal handler that interrupted it does so, or the next thread on this CPU.
    /// Returns whether it did.
    fn roll_back_here(&self, seen: u64) -> bool {
        if !lock::is_held_here(seen) {
            return false;
        }
        let line = &raw const *self as usize;
        let free = seen & !BELOW_VERSION;
        // SAFETY: the section continues only while the lock is HELD on its own CPU, as seen. Until
        // then the exchange that wrote the log is not over, so its words are valid (see the top of
        // this file). A revoker that takes the lock away first fences this CPU, which aborts this
        // section.
        let outcome = unsafe { roll_back_here::on_cpu(line, seen as usize, free as usize) };
        match outcome {
            Ok(DONE) => _ = ROLLBACKS.fetch_add(1, Relaxed),
            Ok(UNLOGGED) if lock::try_free_here(&self.lock, seen, free.wrapping_add(VERSION)) => {}
            _ => return false,
        }
        REVOKED.fetch_add(1, Relaxed);
        true
    }

    /// Waits until the lock is free, or revokes it. Returns whether this thread revoked a holder.
    pub(super) fn ensure_free(&self) -> bool {
        // Acquire: pairs with the release store that freed the lock.
        let seen = self.lock.load(Ordering::Acquire);
        seen & BELOW_VERSION != 0 && self.wait_or_revoke(seen)
    }

    /// Revokes the lock if it is still as seen, and rolls the holder's changes back. When this
    /// returns, the lock has differed from `seen` at least once, unless it is LOCKED by a thread of
    /// this process.
    #[cold]
    fn revoke(&self, seen: u64) {
        let generation = u64::from(platform::generation()) & ID;
        let stop: fn(u64) = match seen & STATE {
            HELD => |cpu| platform::membarrier_rseq(cpu as usize),
            CLAIM => |_| platform::fence_all(),
            // The thread that locked it stayed behind in the parent of this process. There is
            // nothing to fence.
            LOCKED if seen & ID != generation => |_| (),
            LOCKED => return std::thread::yield_now(),
            _ => return,
        };
        let me = Revoker::enter();
        let free = seen & !BELOW_VERSION;
        let claim = free + CLAIM + me.number();
        // AcqRel. Acquire: pairs with the release of the log in `exchange_and_unlock`, for a lock
        // from the parent process. Release: pairs with the acquire in `recover` of a later revoker.
        // The claim is ordered before everything after the fence, which is a system call.
        let claimed = self
            .lock
            .compare_exchange(seen, claim, Ordering::AcqRel, Ordering::Relaxed);
        if claimed.is_err() {
            return;
        }
        REVOKED.fetch_add(1, Relaxed);
        stop(seen & ID);
        self.recover(claim, free);
    }

    /// Claims the lock of a stopped thread, like a revoker that is stopped right after that.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub(in crate::dcas) fn abandon_claim(&self) {
        // Acquire: pairs with the release store that freed the lock.
        let seen = self.lock.load(Ordering::Acquire);
        let claim = (seen & !BELOW_VERSION) + CLAIM + Revoker::enter().number();
        let _ = self
            .lock
            .compare_exchange(seen, claim, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Rolls back after the fence, if the claim still stands, and frees the lock.
    fn recover(&self, claim: u64, free: u64) {
        let freed = free.wrapping_add(VERSION);
        // Acquire: pairs with the release by which another thread replaced the claim.
        if self.lock.load(Ordering::Acquire) != claim {
            return;
        }
        // If another thread has replaced the claim by now, these values mean nothing; each use of
        // them below first checks the claim.
        let log: [u64; 5] = std::array::from_fn(|index| self.log[index].load(Ordering::Relaxed));
        if log[4] != free {
            // The holder had logged nothing. Release: pairs with the acquire of threads that find
            // the lock free. If this fails, another thread has replaced the claim.
            let _ = self
                .lock
                .compare_exchange(claim, freed, Ordering::AcqRel, Ordering::Relaxed);
            return;
        }
        let [first, old_first, second, old_second, _] = log.map(|word| word as usize);
        let line = &raw const *self as usize;
        // SAFETY: while the lock is this claim, the exchange that wrote the log is not over, so its
        // words are valid (see the top of this file). The section checks the claim first, and a
        // revoker that replaces the claim aborts the section by a fence before the exchange can be
        // over.
        let outcome = unsafe {
            roll_back::on_cpu(
                line,
                claim as usize,
                freed as usize,
                first,
                old_first,
                second,
                old_second,
            )
        };
        match outcome {
            Ok(DONE) => {
                ROLLBACKS.fetch_add(1, Relaxed);
                return;
            }
            Ok(LOST) => return,
            // The thread was not registered, or was interrupted too often. It registers for the
            // next time, and rolls back without a section now.
            _ => platform::register_this_thread(),
        };
        self.recover_locked(claim, free, log);
    }

    /// Rolls back under the irrevocable lock, for a thread that cannot run sections.
    #[cold]
    fn recover_locked(&self, claim: u64, free: u64, log: [u64; 5]) {
        let _signals = platform::SignalsBlocked::enter();
        if !lock::try_lock(&self.lock, claim, free) {
            return;
        }
        for (word, old) in [(log[0], log[1]), (log[2], log[3])] {
            // SAFETY: `try_lock` found the lock to be this claim, and it has been LOCKED by this
            // thread since. So the exchange that wrote the log is not over, and its words are valid
            // (see the top of this file).
            let word = unsafe { AtomicU64::from_ptr(word as usize as *mut u64) };
            word.store(old, Ordering::Relaxed);
        }
        ROLLBACKS.fetch_add(1, Relaxed);
        // Release: pairs with the acquire of threads that find the lock free.
        self.lock
            .store(free.wrapping_add(VERSION), Ordering::Release);
    }
}
