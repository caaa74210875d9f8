//! Changes that need no undoing: the version says which of two copies of the state counts.
//!
//! A structure whose state fits in a word, and whose other stores go only where nobody looks in
//! that state, has nothing that would have to be logged. What a stopped thread has done is left as
//! it is, and does not count.
//!
//! ```text
//! lock    63 … 16 version v | 15 14 state | 13 … 0 id
//!         FREE(v, turn)  HELD(v, cpu)  CLAIM(v, claimant)  LOCKED(v, generation)
//! states  two words: at version v the one of number v mod 2 counts
//!
//! change  a section: FREE(v, …), the state of v; FREE(v, …) -> HELD(v, cpu) by compare-and-swap; stores where nobody looks;
//!         the other state; FREE(v+1, cpu), the last instruction
//! revoke  HELD or CLAIM -> CLAIM(v, me); fence; CLAIM(v, me) -> FREE(v, 0), by compare-and-swap
//! read    FREE(v, …); the state of v; still the same
//! ```
//!
//! The turn is a hint: the CPU whose thread changed the state last, and whose cache has the line.
//! A thread on another CPU looks whether the lock changes within two pauses. If it does, that CPU
//! is at work, and the thread pauses longer before it changes the state, which takes the turn.
//! Without that, two CPUs at work exchange the line for each change, and no compare-and-swap
//! fails that would make either back off. A sequence that ignores the turn follows, so a turn
//! delays no thread further.
//!
//! What holds, where it differs from [`assisted`](super::assisted):
//!
//! 1. While the version is v, the state of v is stored to by nobody: holders of v store the other
//!    one. So it may be loaded before the compare-and-swap, which then says that it counts; and so
//!    may what lies where that state says.
//! 2. A holder that is interrupted does not go on, and nothing that it did counts before its last
//!    instruction. It is told ABORTED, and begins again.
//! 3. A claimant replaces HELD(v, cpu) and then fences that CPU. After the fence the holder has
//!    stored FREE(v+1, cpu), over the claim, and the claimant's compare-and-swap fails; or it never
//!    will. Who replaces a claim does not know which CPU it was for, and fences all.
//! 4. Freeing v again, with the version that it had, is right: all that a thread can know of v
//!    still holds. A claimant's number is its call's own, so its compare-and-swap cannot take
//!    another's claim for its own.
//!
//! 5. A section that runs on the CPU of a holder has interrupted it: so it may free the lock at
//!    once, without a fence. Should somebody claim the lock meanwhile, the fence for that CPU ends
//!    this section as well, or finds that it has freed the lock.
//!
//! Recovery is therefore a fence and a compare-and-swap, which need no section; where the holder
//! was interrupted on the same CPU, as by a signal handler or by the next thread there, it is a
//! store.

use crate::generated::Restarts;
use crate::platform;
use crate::sync::{AtomicU64, Ordering, fence, spin_loop};

use super::Version;
use super::assisted::REVOKED;
use super::backoff::Backoff;
use super::claimants::Claimant;
use super::lock::{self, BELOW_VERSION, CLAIM, HELD, ID, LOCKED, STATE, VERSION};

pub(crate) use super::assisted::HIGHEST_CPU;

pub(crate) use super::lock::{ABORTED, BUSY, DONE, REFUSED, UNREGISTERED};

/// Where the states lie in a [`Shadow`], which sequences are given the address of.
pub(crate) const STATES: usize = 8;

/// How many pauses lie between two looks that say whether others are at work.
const LOOK: usize = 2;

/// The lock and both states, on cache lines of their own, for processors that fetch them in pairs.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Shadow {
    lock: AtomicU64,
    states: [AtomicU64; 2],
}

const _: () = assert!(STATES == std::mem::offset_of!(Shadow, states));

/// A change of a state.
pub(crate) trait Change {
    /// Tries once, by a section: how that ended, if there are sections.
    fn attempt(&mut self) -> Option<usize>;

    /// Does this state not allow it?
    fn is_refused(&self, state: u64) -> bool;

    /// Stores what has to be stored, where nobody looks in the state of that version, and returns
    /// the next one. The caller has the lock.
    fn store(&mut self, version: u64, state: u64) -> u64;

    /// How it gives way to others' changes.
    fn backoff(&self) -> Backoff {
        Backoff::new()
    }
}

impl Shadow {
    /// At version 1, as every new object, with state 0.
    pub fn new() -> Shadow {
        Shadow {
            lock: AtomicU64::new(VERSION),
            states: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// One more than the changes that there were.
    pub fn version(&self) -> Version {
        // Acquire: pairs with the release that freed the lock.
        Version(self.lock.load(Ordering::Acquire) >> 16)
    }

    /// What sequences are given.
    #[inline(always)]
    pub fn address(&self) -> usize {
        &raw const *self as usize
    }

    /// The state that counts at some time in this call.
    #[inline]
    pub fn state(&self) -> u64 {
        loop {
            // Acquire: pairs with the release that freed the lock.
            let seen = self.lock.load(Ordering::Acquire);
            if seen & STATE == 0 {
                let state = self.of(seen).load(Ordering::Relaxed);
                // Acquire: pairs with what orders a claim before the stores that follow it: a state
                // that a holder of the next version stored shows that the version is over.
                fence(Ordering::Acquire);
                if self.lock.load(Ordering::Relaxed) == seen {
                    return state;
                }
            } else {
                self.wait_or_revoke(seen);
            }
        }
    }

    /// The state of the version in this lock word.
    #[inline]
    fn of(&self, lock: u64) -> &AtomicU64 {
        &self.states[(lock >> 16) as usize & 1]
    }

    /// Goes on with a change whose first attempt ended as told, until it is made, or refused by a
    /// state that counted: `false`.
    #[cold]
    #[inline(never)]
    pub fn change_slowly(&self, change: &mut impl Change, mut outcome: Option<usize>) -> bool {
        let mut restarts = Restarts::none();
        let (mut registered, mut backoff) = (false, change.backoff());
        let mut first = true;
        loop {
            match outcome {
                Some(DONE) => return true,
                Some(REFUSED) => {
                    if change.is_refused(self.state()) {
                        return false;
                    }
                }
                Some(BUSY) => {
                    if !self.ensure_free() && (!first || self.is_at_work(change)) {
                        backoff.spin();
                    }
                    first = false;
                }
                // Perhaps it had claimed: then it finds out now that this is so on its CPU.
                Some(ABORTED) if restarts.again() => _ = self.ensure_free(),
                Some(UNREGISTERED) if !registered => {
                    registered = true;
                    platform::register_this_thread();
                }
                _ => return self.change_locked(change),
            }
            outcome = change.attempt();
        }
    }

    /// For a thread that cannot run sections: by a lock that no fence revokes. Signals are blocked
    /// while it has that, and not while it waits.
    #[cold]
    fn change_locked(&self, change: &mut impl Change) -> bool {
        loop {
            let seen = self.lock.load(Ordering::Acquire);
            if seen & STATE != 0 {
                self.wait_or_revoke(seen);
                continue;
            }
            let free = seen & !BELOW_VERSION;
            let _quiet = platform::SignalsBlocked::enter();
            if lock::try_lock(&self.lock, seen, free) {
                return self.change_and_unlock(change, free);
            }
        }
    }

    /// What the lock is for, which was free as given.
    fn change_and_unlock(&self, change: &mut impl Change, free: u64) -> bool {
        // Relaxed: only the lock's holder stores states.
        let state = self.of(free).load(Ordering::Relaxed);
        if change.is_refused(state) {
            // Release: as below.
            self.lock.store(free, Ordering::Release);
            return false;
        }
        let next = change.store(free >> 16, state);
        let freed = free.wrapping_add(VERSION);
        self.of(freed).store(next, Ordering::Relaxed);
        // Release: pairs with the acquire of every section and reader that finds it free.
        self.lock.store(freed, Ordering::Release);
        true
    }

    /// Makes a change but for its end, as a thread that is stopped there; if the state does not
    /// allow it, that thread has got no further than the lock.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn abandon(&self, change: &mut impl Change) {
        let free = lock::hold(&self.lock);
        let state = self.of(free).load(Ordering::Relaxed);
        if !change.is_refused(state) {
            let next = change.store(free >> 16, state);
            self.of(free.wrapping_add(VERSION))
                .store(next, Ordering::Release);
        }
    }

    /// Sees to it that the lock was free for a moment. Was somebody thrown out for that?
    fn ensure_free(&self) -> bool {
        // Relaxed: what follows only compares it.
        let seen = self.lock.load(Ordering::Relaxed);
        seen & STATE != 0 && self.wait_or_revoke(seen)
    }

    /// Looks whether other threads change the state. `false` also if the change seems to be
    /// refused as it is: then its caller polls.
    #[cold]
    fn is_at_work(&self, change: &impl Change) -> bool {
        // Relaxed: a hint, which the attempt that follows looks at again.
        let seen = self.lock.load(Ordering::Relaxed);
        if change.is_refused(self.of(seen).load(Ordering::Relaxed)) {
            return false;
        }
        (0..LOOK).for_each(|_| spin_loop());
        self.lock.load(Ordering::Relaxed) != seen
    }

    /// Waits until the lock is no longer as it was seen; not for ever: after a while, throws out
    /// whoever has it, and says so.
    #[cold]
    fn wait_or_revoke(&self, seen: u64) -> bool {
        if lock::is_held_here(seen) && lock::try_free_here(&self.lock, seen, seen & !BELOW_VERSION)
        {
            REVOKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            return true;
        }
        let is_stuck = !lock::wait_for_change(&self.lock, seen);
        if is_stuck {
            self.revoke(seen);
        }
        is_stuck
    }

    /// Throws out whoever has the lock as it was seen. Returns when the lock was otherwise for a
    /// moment at least.
    #[cold]
    fn revoke(&self, seen: u64) {
        let free = seen & !BELOW_VERSION;
        let generation = u64::from(platform::generation()) & ID;
        // AcqRel: the fence that follows is a system call, which orders more. Release, to free it:
        // pairs with the acquire of whoever finds it free.
        let replace = |from, to| {
            self.lock
                .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        match seen & STATE {
            state @ (HELD | CLAIM) => {
                let me = Claimant::enter();
                let claim = free + CLAIM + me.number();
                if replace(seen, claim) {
                    REVOKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    match state {
                        HELD => platform::membarrier_rseq((seen & ID) as usize),
                        _ => platform::fence_all(),
                    }
                    // Whoever had it has freed it by now, or never will.
                    replace(claim, free);
                }
            }
            // Whoever locked it stayed behind in the parent of this process: nothing is left to
            // fence.
            LOCKED if seen & ID != generation => {
                replace(seen, free);
            }
            LOCKED => std::thread::yield_now(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
