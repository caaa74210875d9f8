//! OS-assisted changes that need no rollback: there are two copies of the state, and the version
//! says which one counts.
//!
//! This works for a structure whose state fits in one word and whose other stores go only to places
//! that no thread reads in that state. Then there is nothing to log. What a stopped thread has
//! stored remains, and does not count.
//!
//! ```text
//! lock    63 … 16 version v | 15 14 state | 13 … 0 id
//!         FREE(v, turn)  HELD(v, cpu)  CLAIM(v, number)  LOCKED(v, generation)
//! states  two words; at version v the one with index v mod 2 counts
//!
//! change  a section on CPU c:
//!           load FREE(v, …) and the state of v
//!           FREE(v, …) -> HELD(v, c), the only atomic instruction
//!           store to places that no thread reads in the state of v
//!           store the other state; FREE(v+1, c), the last instruction
//! revoke  HELD or CLAIM -> CLAIM(v, me); fence; CLAIM(v, me) -> FREE(v, 0)
//! read    load FREE(v, …) and the state of v; the lock is still the same
//! ```
//!
//! [`assisted`](super::assisted) explains sections, fences, claims and LOCKED.
//!
//! The *turn* is a hint: the CPU whose thread changed the state last and whose cache holds the
//! line. A thread on another CPU checks whether the lock changes within two pauses. If it does,
//! that CPU is active, and the thread pauses for longer before it changes the state and takes the
//! turn. Without the turn, two active CPUs transfer the line for each change, and no
//! compare-and-swap fails that would make either of them back off. The attempt that follows ignores
//! the turn, so a turn delays a thread only once.
//!
//! A thread whose change the state refuses waits too, at most once and for a limited time, for
//! changes of the opposite kind by other threads ([`Patience`]).
//!
//! Invariants, where they differ from those of [`assisted`](super::assisted):
//!
//! 1. While the version is v, no thread stores to the state of v: holders of v store the other one.
//!    So the state may be loaded before the compare-and-swap, whose success proves that it counted.
//!    The same holds for the places that this state makes readable.
//! 2. An aborted holder does not resume its section. Nothing that it stored counts before its last
//!    instruction. The section returns ABORTED, and the caller retries.
//! 3. A revoker first replaces HELD(v, c) and then fences CPU c. After the fence, either the holder
//!    had already stored FREE(v+1, c) over the claim, and the revoker's compare-and-swap fails; or
//!    the holder never will. A claim no longer names the holder's CPU, and its revoker may have
//!    stopped before its fence. So a revoker that replaces a claim fences all CPUs.
//! 4. Freeing the lock at the same version v is correct, because everything that a thread can know
//!    about v still holds: there is no log that a later holder of v could be taken to have written.
//!    A claim carries the number of its call, so a compare-and-swap cannot mistake another call's
//!    claim for its own.
//! 5. A section on CPU c that finds HELD(v, c) has interrupted the holder, so it frees the lock
//!    without a fence. If a revoker claims the lock meanwhile, the revoker's fence of CPU c aborts
//!    this section too, or finds that it has freed the lock.
//!
//! So recovery is a fence and a compare-and-swap, and needs no section. On the holder's own CPU, in
//! a signal handler or in the next thread there, it is one store.

use crate::generated::Restarts;
use crate::platform;
use crate::sync::{AtomicU64, Ordering, fence, spin_loop};

use super::Version;
use super::assisted::REVOKED;
use super::backoff::{Backoff, Patience};
use super::lock::{self, BELOW_VERSION, CLAIM, HELD, ID, LOCKED, STATE, VERSION};
use super::revokers::Revoker;

pub(crate) use super::assisted::HIGHEST_CPU;

pub(crate) use super::lock::{ABORTED, BUSY, DONE, REFUSED, UNREGISTERED};

/// The offset of the states in a [`Shadow`], for sections, which get its address.
pub(crate) const STATES: usize = 8;

/// How many pauses a thread makes between the two loads that show whether another CPU is active.
const LOOK: usize = 2;

/// The lock and both states. They are aligned for processors that fetch cache lines in pairs.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Shadow {
    lock: AtomicU64,
    states: [AtomicU64; 2],
    /// For refused changes. Changes are counted by versions.
    patience: Patience,
}

const _: () = assert!(STATES == std::mem::offset_of!(Shadow, states));

/// A change of the state, as a structure defines it.
pub(crate) trait Change {
    /// Runs the section once. Returns its outcome, or `None` if this process runs no sections.
    fn attempt(&mut self) -> Option<usize>;

    /// Returns whether this state does not allow the change.
    fn is_refused(&self, state: u64) -> bool;

    /// Stores what the change stores besides the state, to places that no thread reads in the state
    /// of this version, and returns the next state. The caller holds the lock.
    fn store(&mut self, version: u64, state: u64) -> u64;

    /// Returns how many changes of the opposite kind this state allows. If the state refuses this
    /// change, that is the capacity.
    fn opposite(&self, state: u64) -> u64;

    /// Fetches cache lines that the next changes of this kind need.
    fn prefetch(&self, _state: u64) {}
}

impl Shadow {
    /// Creates a lock at version 1, like every new structure, with state 0.
    pub fn new() -> Shadow {
        Shadow {
            lock: AtomicU64::new(VERSION),
            states: [AtomicU64::new(0), AtomicU64::new(0)],
            patience: Patience::default(),
        }
    }

    /// Returns the number of changes plus 1.
    pub fn version(&self) -> Version {
        // Acquire: pairs with the release store that freed the lock.
        Version(self.lock.load(Ordering::Acquire) >> 16)
    }

    /// Returns the address for sections.
    #[inline(always)]
    pub fn address(&self) -> usize {
        &raw const *self as usize
    }

    /// Returns the state that counts at some time during this call.
    #[inline]
    pub fn state(&self) -> u64 {
        loop {
            // Acquire: pairs with the release store that freed the lock.
            let seen = self.lock.load(Ordering::Acquire);
            if seen & STATE == 0 {
                let state = self.of(seen).load(Ordering::Relaxed);
                // Acquire fence: pairs with what orders taking the lock before the stores to
                // states, as in `RevocableLock::is_still`. If the load above saw a state of a later
                // holder, the load below sees that the version is over or held.
                fence(Ordering::Acquire);
                if self.lock.load(Ordering::Relaxed) == seen {
                    return state;
                }
            } else {
                self.wait_or_revoke(seen);
            }
        }
    }

    /// Returns the state word of the version in this lock word.
    #[inline]
    fn of(&self, lock: u64) -> &AtomicU64 {
        &self.states[(lock >> 16) as usize & 1]
    }

    /// Continues a change after its first attempt, which had this outcome. Returns `true` when the
    /// change is made, and `false` when a state that counted does not allow it.
    #[cold]
    #[inline(never)]
    pub fn change_slowly(&self, change: &mut impl Change, mut outcome: Option<usize>) -> bool {
        let mut restarts = Restarts::none();
        let (mut registered, mut waited, mut backoff) = (false, false, None);
        loop {
            match outcome {
                Some(DONE) => {
                    if backoff.is_some() {
                        self.note_turn(change);
                    }
                    return true;
                }
                Some(REFUSED) => {
                    if !std::mem::replace(&mut waited, true) {
                        self.wait_for_opposite(change);
                    }
                    if change.is_refused(self.state()) {
                        return false;
                    }
                }
                Some(BUSY) => {
                    if !self.wait_out_holder() {
                        match &mut backoff {
                            None => backoff = Some(self.let_others_change(change)),
                            Some(backoff) => backoff.spin(),
                        }
                    }
                }
                // The aborted attempt may hold the lock. If the thread is still on that CPU, this
                // frees it.
                Some(ABORTED) if restarts.again() => _ = self.wait_out_holder(),
                Some(UNREGISTERED) if !registered => {
                    registered = true;
                    platform::register_this_thread();
                }
                _ => return self.change_locked(change),
            }
            outcome = change.attempt();
        }
    }

    /// Makes the change of a thread that cannot run sections, under a lock that no fence revokes.
    /// Signals are blocked while the thread holds the lock, but not while it waits for it.
    #[cold]
    fn change_locked(&self, change: &mut impl Change) -> bool {
        loop {
            // Acquire: pairs with the release store that freed the lock.
            let seen = self.lock.load(Ordering::Acquire);
            if seen & STATE != 0 {
                self.wait_or_revoke(seen);
                continue;
            }
            let free = seen & !BELOW_VERSION;
            let _signals = platform::SignalsBlocked::enter();
            if lock::try_lock(&self.lock, seen, free) {
                return self.change_and_unlock(change, free);
            }
        }
    }

    /// Makes the change and frees the lock, which was FREE as given and is LOCKED by this thread.
    fn change_and_unlock(&self, change: &mut impl Change, free: u64) -> bool {
        // Relaxed: only the holder of the lock stores to states, and `try_lock` acquired the lock.
        let state = self.of(free).load(Ordering::Relaxed);
        if change.is_refused(state) {
            // Release: pairs with the acquire loads of sections and readers that find the lock
            // free.
            self.lock.store(free, Ordering::Release);
            return false;
        }
        let next = change.store(free >> 16, state);
        let freed = free.wrapping_add(VERSION);
        self.of(freed).store(next, Ordering::Relaxed);
        // Release: pairs with the acquire loads of sections and readers that find the lock free.
        self.lock.store(freed, Ordering::Release);
        true
    }

    /// Makes a change except for its end, like a thread that is stopped there. If the state does
    /// not allow the change, that thread is stopped just after it has taken the lock.
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

    /// If the lock is held, waits until it changes, for a limited time; after that, revokes it. The
    /// lock may be held again when this returns. Returns whether this thread revoked the holder or
    /// tried to.
    fn wait_out_holder(&self) -> bool {
        // Relaxed: the value is only compared with later ones.
        let seen = self.lock.load(Ordering::Relaxed);
        seen & STATE != 0 && self.wait_or_revoke(seen)
    }

    /// Waits if a thread on another CPU is changing the state, and returns the backoff for further
    /// attempts. Does not wait if the current state seems to refuse the change: then the caller
    /// polls.
    #[cold]
    fn let_others_change(&self, change: &impl Change) -> Backoff {
        // Relaxed: a hint. The attempt that follows loads the lock and the state again.
        let seen = self.lock.load(Ordering::Relaxed);
        let state = self.of(seen).load(Ordering::Relaxed);
        let mut backoff = Backoff::during(change.opposite(state));
        if !change.is_refused(state) {
            (0..LOOK).for_each(|_| spin_loop());
            if self.lock.load(Ordering::Relaxed) != seen {
                backoff.spin();
            }
        }
        backoff
    }

    /// Notes that this thread has just taken the turn from another CPU.
    #[cold]
    fn note_turn(&self, change: &impl Change) {
        // Relaxed: hints, all of them.
        let seen = self.lock.load(Ordering::Relaxed);
        change.prefetch(self.of(seen).load(Ordering::Relaxed));
    }

    /// Waits for changes of the opposite kind, for a limited time, if the state refuses the change.
    #[cold]
    fn wait_for_opposite(&self, change: &impl Change) {
        // Relaxed: hints. The caller loads the lock and the state again.
        let seen = self.lock.load(Ordering::Relaxed);
        let state = self.of(seen).load(Ordering::Relaxed);
        if change.is_refused(state) {
            let capacity = change.opposite(state);
            let made = || {
                let state = self.of(self.lock.load(Ordering::Relaxed));
                capacity - change.opposite(state.load(Ordering::Relaxed))
            };
            self.patience.wait(seen >> 16, capacity, 0, made);
        }
    }

    /// Waits until the lock differs from what was seen, for a limited time; after that, revokes it.
    /// Returns whether this thread revoked the holder or tried to.
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

    /// Revokes the lock if it is still as seen. When this returns, the lock has differed from
    /// `seen` at least once, unless it is LOCKED by a thread of this process.
    #[cold]
    fn revoke(&self, seen: u64) {
        let free = seen & !BELOW_VERSION;
        let generation = u64::from(platform::generation()) & ID;
        // AcqRel. Acquire: pairs, through the holder's compare-and-swap, with the release store
        // that made the lock FREE(v). Release: pairs with the acquire of threads that find the lock
        // free again, which then see all that this thread acquired. What follows the fence of the
        // CPU is ordered after the claim by that system call.
        let replace = |from, to| {
            self.lock
                .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        match seen & STATE {
            state @ (HELD | CLAIM) => {
                let me = Revoker::enter();
                let claim = free + CLAIM + me.number();
                if replace(seen, claim) {
                    REVOKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    match state {
                        HELD => platform::membarrier_rseq((seen & ID) as usize),
                        _ => platform::fence_all(),
                    }
                    // The holder has freed the lock by now, which makes this fail, or it never
                    // will.
                    replace(claim, free);
                }
            }
            // The thread that locked it stayed behind in the parent of this process. There is
            // nothing to fence.
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
