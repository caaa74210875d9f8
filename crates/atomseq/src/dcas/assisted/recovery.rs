//! Throwing out whoever stands in the way, and undoing what they had done.
//!
//! The words that a log names are valid as long as its exchange is not over, that is, until its
//! version is. The call that wrote the log does not return before that. It may never do so: its
//! thread has exited, or a handler has left it by `siglongjmp`. Then nothing has ended the borrow
//! of the structure, or the rules of [`siglongjmp`](crate::signal::siglongjmp) keep it where it is.

use std::sync::atomic::{AtomicU64 as Count, Ordering::Relaxed};

use super::RevocableLock;
use super::sequences::{roll_back, roll_back_here};
use crate::dcas::claimants::Claimant;
use crate::dcas::lock::{
    self, BELOW_VERSION, CLAIM, DONE, HELD, ID, LOCKED, LOST, STATE, UNLOGGED, VERSION,
};
use crate::platform;
use crate::sync::{AtomicU64, Ordering};

/// How often somebody was thrown out, and how often that undid something, in this process.
pub(in crate::dcas) static REVOKED: Count = Count::new(0);
pub(in crate::dcas) static UNDONE: Count = Count::new(0);

impl RevocableLock {
    /// Waits until the lock is no longer as it was seen; not for ever: after a while, throws out
    /// whoever has it, and says so.
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

    /// Undoes what the holder has done if its CPU is this one, as when a signal handler has
    /// interrupted it, or the next thread there: without a fence.
    fn roll_back_here(&self, seen: u64) -> bool {
        if !lock::is_held_here(seen) {
            return false;
        }
        let line = &raw const *self as usize;
        let free = seen & !BELOW_VERSION;
        // SAFETY: the section goes on only while the lock is held on its own CPU. Then the exchange
        // that wrote the log is not over, so its words are valid (see the top); and who takes the
        // lock away fences this CPU before doing anything else.
        let outcome = unsafe { roll_back_here::on_cpu(line, seen as usize, free as usize) };
        match outcome {
            Ok(DONE) => _ = UNDONE.fetch_add(1, Relaxed),
            Ok(UNLOGGED) if lock::try_free_here(&self.lock, seen, free.wrapping_add(VERSION)) => {}
            _ => return false,
        }
        REVOKED.fetch_add(1, Relaxed);
        true
    }

    /// Waits for whoever has the lock, or throws it out. Was somebody thrown out?
    pub(super) fn ensure_free(&self) -> bool {
        // Acquire: pairs with the release that freed the lock.
        let seen = self.lock.load(Ordering::Acquire);
        seen & BELOW_VERSION != 0 && self.wait_or_revoke(seen)
    }

    /// Throws out whoever has the lock as it was seen, and undoes what they had done. Returns when
    /// the lock was otherwise for a moment at least.
    #[cold]
    fn revoke(&self, seen: u64) {
        let generation = u64::from(platform::generation()) & ID;
        let stop: fn(u64) = match seen & STATE {
            HELD => |cpu| platform::membarrier_rseq(cpu as usize),
            CLAIM => |_| platform::fence_all(),
            // Whoever locked it stayed behind in the parent of this process: nothing is left to
            // fence.
            LOCKED if seen & ID != generation => |_| (),
            LOCKED => return std::thread::yield_now(),
            _ => return,
        };
        let me = Claimant::enter();
        let free = seen & !BELOW_VERSION;
        let claim = free + CLAIM + me.number();
        // AcqRel: the fence that follows is a system call, which orders more.
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

    /// Claims the lock that another one was stopped with, as a thread that is stopped right after
    /// that.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub(in crate::dcas) fn abandon_claim(&self) {
        let seen = self.lock.load(Ordering::Acquire);
        let claim = (seen & !BELOW_VERSION) + CLAIM + Claimant::enter().number();
        let _ = self
            .lock
            .compare_exchange(seen, claim, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// After the fence: what the claim says is undone, unless somebody else does that by now.
    fn recover(&self, claim: u64, free: u64) {
        let freed = free.wrapping_add(VERSION);
        if self.lock.load(Ordering::Acquire) != claim {
            return;
        }
        // If the lock is somebody else's by now, this is nonsense, and every use of it below finds
        // that out first.
        let log: [u64; 5] = std::array::from_fn(|index| self.log[index].load(Ordering::Relaxed));
        if log[4] != free {
            // Release: pairs with the acquire of whoever finds it free.
            let _ = self
                .lock
                .compare_exchange(claim, freed, Ordering::AcqRel, Ordering::Relaxed);
            return;
        }
        let [first, old_first, second, old_second, _] = log.map(|word| word as usize);
        let line = &raw const *self as usize;
        // SAFETY: while the lock is this claim, the exchange that wrote the log is not over, so its
        // words are valid (see the top); the section looks at the lock first, and who takes the
        // claim away fences it.
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
                UNDONE.fetch_add(1, Relaxed);
                return;
            }
            Ok(LOST) => return,
            // Not registered, or interrupted too often. The next time, perhaps.
            _ => platform::register_this_thread(),
        };
        self.recover_locked(claim, free, log);
    }

    /// The same for a thread that cannot run sections.
    #[cold]
    fn recover_locked(&self, claim: u64, free: u64, log: [u64; 5]) {
        let _quiet = platform::SignalsBlocked::enter();
        if !lock::try_lock(&self.lock, claim, free) {
            return;
        }
        for (word, old) in [(log[0], log[1]), (log[2], log[3])] {
            // SAFETY: the lock was this claim up to now, so the exchange that wrote the log is not
            // over, and its words are valid (see the top).
            let word = unsafe { AtomicU64::from_ptr(word as usize as *mut u64) };
            word.store(old, Ordering::Relaxed);
        }
        UNDONE.fetch_add(1, Relaxed);
        // Release: pairs with the acquire of whoever finds it free.
        self.lock
            .store(free.wrapping_add(VERSION), Ordering::Release);
    }
}
