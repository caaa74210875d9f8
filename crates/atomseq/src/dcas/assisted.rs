//! OS-assisted DCAS (GC96, section 6.1, after Bershad 1993): each domain has one lock word, and
//! other threads may revoke the lock from a stopped holder. The lock word holds the domain's
//! version number (GC96, section 5.1). *Stopped* means preempted, exited, or just slow: other
//! threads cannot distinguish these.
//!
//! ```text
//! lock   63 … 16 version v | 15 14 state | 13 … 0 id
//!        FREE(v)                no thread changes the words
//!        HELD(v, cpu)           a section on this CPU may change the words
//!        CLAIM(v, number)       the call of this number has revoked the lock and rolls back
//!        LOCKED(v, generation)  a thread outside a section has the lock, irrevocably
//! log    first word's address, its old value; second word's address, its old value; stamp
//!
//! exchange         a section on CPU c:
//!                    FREE(v) -> HELD(v, c), the only atomic instruction
//!                    compare both words; if one differs: FREE(v+1), return REFUSED
//!                    write the log; stamp = FREE(v)
//!                    store both new values
//!                    FREE(v+1), the last instruction
//! store_pair_if    the same, from a given v, without comparing the words
//! exchange_locked  a thread that cannot run sections, with its signals blocked:
//!                    FREE(v) -> LOCKED(v, my generation)
//!                    the steps of `exchange`; FREE(v+1)
//! revoke           HELD(v, c) or CLAIM(v, other) or LOCKED(v, earlier generation) -> CLAIM(v, me)
//!                    fence CPU c, or all CPUs, or none: this aborts the section that had the lock
//!                    if the lock is still CLAIM(v, me), a section:
//!                      if stamp = FREE(v), restore both old values; FREE(v+1)
//! recover_locked   a revoker that cannot run sections, with its signals blocked:
//!                    CLAIM(v, me) -> LOCKED(v, my generation)
//!                    restore both old values; FREE(v+1)
//! roll_back_here   a section on CPU c that finds HELD(v, c):
//!                    if stamp = FREE(v), restore both old values; FREE(v+1)
//! read             load FREE(v); load words; the lock is still FREE(v)
//! ```
//!
//! A *section* is a restartable sequence: if the kernel preempts, migrates or signals the thread
//! inside it, the thread continues at the abort address. To *fence* a CPU is the rseq membarrier, a
//! system call that aborts the sections that run on one CPU or on all; *release fence* and *acquire
//! fence* are the memory fences. A *revoker* is a call in `recovery.rs` that found the lock taken
//! for too long.
//!
//! A section frees the lock by a plain release store. If a revoker has claimed the lock meanwhile,
//! the store overwrites the claim, and the change counts.
//!
//! An exchange in the usual case is the section alone: one compare-and-swap, loads and stores. If
//! the section is aborted after it took the lock, the lock stays HELD(v, c) and the words may be
//! half changed. The next thread that needs the lock restores them from the log: on CPU c by
//! `roll_back_here`, on any other CPU by `revoke`. The aborted call itself does the same, and then
//! retries.
//!
//! Invariants:
//!
//! 1. FREE(v) becomes HELD(v) or LOCKED(v) by one compare-and-swap, and no version recurs within
//!    [2^48 changes](crate::docs::limitations#double-compare-and-swap). A holder that is refused or
//!    rolled back advances the version too, so each version has at most one holder, and a log with
//!    the stamp FREE(v) is that holder's. (`shadow` has no log, and frees the lock at v.) While the
//!    lock is HELD(v, c), only this holder, or after its abort `roll_back_here` on CPU c, changes
//!    the words. Only the holder writes the log.
//! 2. An aborted holder does not resume its section. Its stores so far remain, and the lock remains
//!    HELD(v). The section returns ABORTED and does not say whether it had taken the lock, so the
//!    call treats the lock as any other thread does. It reports success only for a later attempt
//!    that reaches its last instruction.
//! 3. A revoker first replaces HELD(v, c) and then fences CPU c. After the fence there are two
//!    cases. Either the holder had already stored FREE(v+1) over the claim, and the revoker sees
//!    this. Or the holder never will store again, and only the revoker acts for v.
//! 4. A claim carries a number that no other running call has; it is not a CPU number. So a lock
//!    that is still CLAIM(v, me) has not been claimed by another call since, and a stale revoker
//!    rolls nothing back.
//! 5. A revoker may be stopped too. Its rollback is a section that first checks for CLAIM(v, me). A
//!    second revoker replaces that claim and fences all CPUs. This aborts two parties: the holder,
//!    if the first revoker was stopped before its fence, and the rollback of the first revoker. The
//!    claim names the CPU of neither. Rolling back twice has the effect of rolling back once: the
//!    log stays the same while the version is v.
//! 6. The stamp is written after the rest of the log and before the words. If it is not FREE(v), no
//!    word was changed at version v. No version starts with a stamp equal to FREE(v). In a section
//!    these are plain stores, which AArch64 does not order for other CPUs. An abort leaves the
//!    stores of a prefix of the program, and the fence of its CPU makes all of them visible to the
//!    revoker. `roll_back_here` runs on the CPU that made them.
//! 7. A section on CPU c that finds HELD(v, c) has interrupted the holder, which therefore never
//!    resumes. So it rolls back without a claim or a fence. If a revoker claims the lock meanwhile,
//!    the revoker's fence of CPU c aborts this section too, or finds that it has freed the lock.
//! 8. A reader that loads FREE(v) before and after its loads has seen no store of a holder of v or
//!    later, and all stores of earlier holders.
//!
//! A call that was rolled back has not returned, so its effect never existed for its caller. A call
//! that returns leaves the lock past version v, after which no thread accesses words on its behalf.
//! So the words need to live only as long as the calls that name them. A call that a handler leaves
//! by `siglongjmp` never returns; its words stay in place.
//!
//! LOCKED is the slow path of a thread that cannot run sections because it is not registered, or
//! whose sections were aborted more often than the [restart limit](crate::set_restart_limit), as in
//! a debugger that steps it. The thread blocks its signals, no fence stops it, and other threads
//! wait for it. If the thread stayed behind in the parent of a fork, the child revokes its lock.

#[cfg(any(test, feature = "unstable-internals"))]
use super::lock;
use super::lock::{BELOW_VERSION, DONE, ID, VERSION};
use super::part::Part;
use crate::sequence::Closed;
use crate::sync::{AtomicU64, Ordering, fence};

mod recovery;
mod sequences;
mod slow;

pub(super) use recovery::{REVOKED, ROLLBACKS};
#[cfg(feature = "unstable-internals")]
pub(super) use sequences::SEQUENCES;
use sequences::{exchange, store_pair_if};

/// The largest CPU number that fits the id field of the lock word.
pub(crate) const HIGHEST_CPU: usize = ID as usize;

/// Offsets of the fields in a [`RevocableLock`], for the sections.
const LOG: usize = 8;
const SPARE: usize = 48;

/// The index of the stamp in the log: the lock word FREE(v) of the version v that the log is of.
const STAMP: usize = 4;

/// What a domain has besides its words: the lock word and the log, in one cache line. A structure
/// may keep one of its covered words there too.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct RevocableLock {
    lock: AtomicU64,
    log: [AtomicU64; 5],
    /// The second word of an operation on one word. Always 0.
    spare: AtomicU64,
    attached: AtomicU64,
}

impl RevocableLock {
    pub(super) const fn new() -> RevocableLock {
        // Version 1, whose stamp the log does not have: it is 0.
        RevocableLock::with(VERSION)
    }

    /// Creates one that is never free, and that no operation takes.
    pub(super) const fn unused() -> RevocableLock {
        RevocableLock::with(VERSION | BELOW_VERSION)
    }

    const fn with(lock: u64) -> RevocableLock {
        RevocableLock {
            lock: AtomicU64::new(lock),
            log: [const { AtomicU64::new(0) }; 5],
            spare: AtomicU64::new(0),
            attached: AtomicU64::new(0),
        }
    }

    /// Returns the word in this line that the structure may use. Zero at first.
    #[inline(always)]
    pub(super) fn attached(&self) -> &AtomicU64 {
        &self.attached
    }

    /// Returns the second part of an operation on one word: the spare word, from 0 to 0.
    pub(super) fn spare_part(&self) -> Part {
        Part {
            word: &raw const self.spare,
            old: 0,
            new: 0,
        }
    }

    /// Changes both words and returns `true` if both have their old values. Returns `false`, having
    /// changed nothing, if one differs.
    ///
    /// # Safety
    ///
    /// The words are aligned and different, valid until this returns, and changed only through this
    /// lock.
    #[inline(always)]
    pub(super) unsafe fn exchange(&self, first: Part, second: Part) -> bool {
        // SAFETY: the caller's promise covers the words. `line` in the section is this lock, which
        // `self` keeps alive; the section accesses nothing else.
        let outcome = unsafe { self.attempt_exchange(first, second) };
        // Only success is worth a fast path: after a failure the caller reads again anyway.
        if outcome == Ok(DONE) {
            return true;
        }
        let (a, b) = (first, second);
        // SAFETY: the caller's promise.
        unsafe { self.continue_exchange(outcome.ok(), a.word, a.old, a.new, b.word, b.old, b.new) }
    }

    /// Stores both new values and returns `true` if the lock is still at this version. Returns
    /// `false`, having changed nothing, if the version has advanced. It may be this call that
    /// advanced the version, if it was aborted and rolled back.
    ///
    /// # Safety
    ///
    /// As for [`exchange`](RevocableLock::exchange), except that the words may be the same if the
    /// version has advanced. They are accessed only after the lock was taken at this version.
    #[inline(always)]
    pub(super) unsafe fn store_pair_if(&self, version: u64, first: Part, second: Part) -> bool {
        // SAFETY: the caller's promise covers the words. `line` in the section is this lock, which
        // `self` keeps alive; the section accesses nothing else.
        let outcome = unsafe { self.attempt_store_pair_if(version << 16, first, second) };
        if outcome == Ok(DONE) {
            return true;
        }
        let (a, b) = (first, second);
        // SAFETY: the caller's promise.
        unsafe { self.continue_store_pair_if(outcome.ok(), version, a.word, a.new, b.word, b.new) }
    }

    /// Returns the version at a time when the lock is free. Revokes a stopped holder.
    #[inline(always)]
    pub(super) fn begin(&self) -> u64 {
        loop {
            // Acquire: pairs with the release store that freed the lock, so the words are at least
            // as new.
            let seen = self.lock.load(Ordering::Acquire);
            if seen & BELOW_VERSION == 0 {
                return seen >> 16;
            }
            self.wait_or_revoke(seen);
        }
    }

    /// Returns the version if the lock is free.
    #[inline(always)]
    pub(super) fn begin_at_once(&self) -> Option<u64> {
        // Acquire: as in `begin`.
        let seen = self.lock.load(Ordering::Acquire);
        (seen & BELOW_VERSION == 0).then_some(seen >> 16)
    }

    /// Advances to a version later than that of [`begin`](RevocableLock::begin). The caller owns
    /// the lock exclusively.
    pub(super) fn set_version(&mut self, version: u64) {
        // Relaxed: no other thread accesses the lock, and passing it to one orders this store.
        self.lock.store(version << 16, Ordering::Relaxed);
    }

    /// Returns whether the lock is still free at that version.
    #[inline(always)]
    pub(super) fn is_still(&self, version: u64) -> bool {
        // Acquire fence: pairs with what orders taking the lock before the stores to words. In a
        // section this is `lock cmpxchg` on x86-64, and the `dmb ishst` after the compare-and-swap
        // on AArch64; in `lock::try_lock` it is the release fence. If a load before this fence saw
        // a store of a later holder, the load below sees that the lock was taken.
        fence(Ordering::Acquire);
        self.lock.load(Ordering::Relaxed) == version << 16
    }

    /// Does all of an exchange except its end, like a thread that is stopped there. The words must
    /// have their old values.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub(super) fn abandon(&self, first: Part, second: Part) {
        let free = lock::hold(&self.lock);
        let log = [
            first.address() as u64,
            first.old,
            second.address() as u64,
            second.old,
            free,
        ];
        // Release, here and for the words: in place of the fence of a CPU, which orders the stores
        // of a section. Each store is visible no later than the next.
        for (place, word) in self.log.iter().zip(log) {
            place.store(word, Ordering::Release);
        }
        for part in [first, second] {
            // SAFETY: `word` is the address of a covered word that the caller borrows during this
            // call.
            let word = unsafe { AtomicU64::from_ptr(part.word.cast_mut().cast()) };
            word.store(part.new, Ordering::Release);
        }
    }

    /// Takes the lock, like a thread that is stopped right after that.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub(super) fn abandon_lock(&self) {
        lock::hold(&self.lock);
    }

    /// Returns the version, whether or not the lock is free: a holder has changed nothing yet that
    /// counts.
    #[inline]
    pub(super) fn version(&self) -> u64 {
        // Acquire: pairs with the release store that freed the lock.
        self.lock.load(Ordering::Acquire) >> 16
    }

    #[inline(always)]
    unsafe fn attempt_exchange(&self, a: Part, b: Part) -> Result<usize, Closed> {
        let line = &raw const *self as usize;
        let words = (a.address(), b.address());
        let (old_a, new_a) = (a.old as usize, a.new as usize);
        let (old_b, new_b) = (b.old as usize, b.new as usize);
        // SAFETY: the caller's promise.
        unsafe { exchange::on_cpu(line, words.0, old_a, new_a, words.1, old_b, new_b) }
    }

    #[inline(always)]
    unsafe fn attempt_store_pair_if(&self, free: u64, a: Part, b: Part) -> Result<usize, Closed> {
        let line = &raw const *self as usize;
        let words = (a.address(), b.address());
        let (new_a, new_b) = (a.new as usize, b.new as usize);
        // SAFETY: the caller's promise.
        unsafe { store_pair_if::on_cpu(line, free as usize, words.0, new_a, words.1, new_b) }
    }
}

#[cfg(test)]
mod tests;
