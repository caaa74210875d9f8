//! DCAS with the kernel's help (GC96 6.1, after Bershad 1993): one lock word a domain, whose holder
//! anyone may throw out. It is the version number of what the domain covers (GC96 5.1).
//!
//! ```text
//! lock   63 … 16 version v | 15 14 state | 13 … 0 id
//!        FREE(v)  HELD(v, cpu)  CLAIM(v, claimant)  LOCKED(v, generation)
//! log    first, what it held; second, what it held; FREE(v) of the exchange that wrote it
//!
//! exchange   a section: FREE(v) -> HELD(v, cpu) by compare-and-swap; compare; log; log.version = FREE(v); store;
//!            FREE(v+1), the last instruction, on every way out
//! revoke     HELD or CLAIM -> CLAIM(v, me); fence; if it is still mine: roll back by a section, if log.version = FREE(v);
//!            FREE(v+1)
//! roll_back_here  a section: HELD(v, this very cpu); roll back, if log.version = FREE(v); FREE(v+1)
//! read       FREE(v); loads; still FREE(v)
//! ```
//!
//! What holds, step by step:
//!
//! 1. FREE(v) becomes HELD(v) or LOCKED(v) by one compare-and-swap, and v never comes back: so
//!    there is one holder a version, who changes the words and the log as long as the lock is
//!    HELD(v), and nobody else does.
//! 2. A holder that is interrupted does not go on: the kernel moves it to its abort address. What
//!    it did stays, and the lock stays HELD(v). It is told ABORTED, not whether it had claimed; it
//!    goes on like everybody who finds the lock taken. It succeeds only by a later exchange that
//!    reaches its end.
//! 3. A claimant replaces HELD(v, cpu) and then fences that CPU. After the fence the holder has
//!    stored FREE(v+1), over the claim, and the claimant finds out; or it never will, and the
//!    claimant alone acts for v.
//! 4. The claimant is told by a number that no other call has at that time, not by its CPU. So
//!    "still mine" means that nobody has claimed since, and a stale claimant undoes nothing.
//! 5. A claimant may stop as well. Its recovery is a section that finds CLAIM(v, me) and then
//!    stores; who replaces its claim fences all CPUs. Undoing twice is undoing once, for the log
//!    does not change from claim to claim.
//! 6. log.version is written after the rest of the log and before the words: if it is not FREE(v),
//!    no word was changed. A version begins nowhere with a log of its own.
//! 7. A section that runs on the CPU of a holder has interrupted it, so it may roll back at once,
//!    without a claim and a fence. Should somebody claim the lock meanwhile, the fence for that CPU
//!    ends this section as well, or finds that it has freed the lock.
//! 8. A reader that sees FREE(v) before and after its loads has seen no word that a holder of v or
//!    later changed, and all that earlier ones did.
//!
//! An undone exchange never returned, and so never happened. An exchange that returned left FREE
//! behind, so nobody touches its words for its sake any more: words need to live no longer than the
//! calls that name them. Those of a call that a handler leaves by `siglongjmp`, and which so never
//! returns, stay where they are.
//!
//! LOCKED is the way of a thread that cannot run sections (it is not registered, or a debugger
//! steps it): its signals are blocked, no fence stops it, and the others wait. A child of a fork
//! recovers from one that stayed in its parent.

#[cfg(any(test, feature = "unstable-internals"))]
use super::lock;
use super::lock::{BELOW_VERSION, DONE, ID, VERSION};
use super::part::Part;
use crate::sequence::Closed;
use crate::sync::{AtomicU64, Ordering, fence};

mod recovery;
mod sequences;
mod slow;

pub(super) use recovery::{REVOKED, UNDONE};
#[cfg(feature = "unstable-internals")]
pub(super) use sequences::SEQUENCES;
use sequences::{exchange, store_pair_if};

/// The largest number of a CPU that an id holds.
pub(crate) const HIGHEST_CPU: usize = ID as usize;

/// Where the words of a [`RevocableLock`] lie.
const LOG: usize = 8;
const SPARE: usize = 48;

/// What a domain has besides its words: one cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct RevocableLock {
    lock: AtomicU64,
    log: [AtomicU64; 5],
    /// The second word of an exchange of one: always 0.
    spare: AtomicU64,
    _rest: u64,
}

impl RevocableLock {
    pub(super) fn new() -> RevocableLock {
        RevocableLock {
            // No log is of version 1.
            lock: AtomicU64::new(VERSION),
            log: std::array::from_fn(|_| AtomicU64::new(0)),
            spare: AtomicU64::new(0),
            _rest: 0,
        }
    }

    /// The part of a word that there is not.
    pub(super) fn no_part(&self) -> Part {
        Part {
            word: &raw const self.spare,
            old: 0,
            new: 0,
        }
    }

    /// Changes both words, or finds that one of them is not as it should be.
    ///
    /// # Safety
    ///
    /// The words are aligned, different, valid until this returns, and changed in no other way but
    /// through this line.
    #[inline(always)]
    pub(super) unsafe fn exchange(&self, first: Part, second: Part) -> bool {
        // SAFETY: the line and the words are valid for loads and stores, and the steps reach
        // nothing else.
        let outcome = unsafe { self.attempt_compared(first, second) };
        // Only success is worth a way of its own: whoever fails reads again.
        if outcome == Ok(DONE) {
            return true;
        }
        let (a, b) = (first, second);
        // SAFETY: the caller's promise.
        unsafe { self.compared_slowly(outcome.ok(), a.word, a.old, a.new, b.word, b.old, b.new) }
    }

    /// Changes both words, or finds that somebody has changed something since the version. It may
    /// also be this call, interrupted, that has used the version up.
    ///
    /// # Safety
    ///
    /// As for [`exchange`](RevocableLock::exchange).
    #[inline(always)]
    pub(super) unsafe fn store_pair_if(&self, version: u64, first: Part, second: Part) -> bool {
        // SAFETY: the line and the words are valid for loads and stores, and the steps reach
        // nothing else.
        let outcome = unsafe { self.attempt_since(version << 16, first, second) };
        if outcome == Ok(DONE) {
            return true;
        }
        let (a, b) = (first, second);
        // SAFETY: the caller's promise.
        unsafe { self.since_slowly(outcome.ok(), version, a.word, a.new, b.word, b.new) }
    }

    /// The version, at a time when the lock is free.
    #[inline(always)]
    pub(super) fn begin(&self) -> u64 {
        loop {
            // Acquire: pairs with the release that freed the lock: the words are at least that new.
            let seen = self.lock.load(Ordering::Acquire);
            if seen & BELOW_VERSION == 0 {
                return seen >> 16;
            }
            self.wait_or_revoke(seen);
        }
    }

    /// Goes to a later version than that of [`begin`](RevocableLock::begin). For an exclusive
    /// owner.
    pub(super) fn set_version(&mut self, version: u64) {
        self.lock.store(version << 16, Ordering::Relaxed);
    }

    /// Is the lock as it was when it was free at that version?
    #[inline(always)]
    pub(super) fn is_still(&self, version: u64) -> bool {
        // Acquire: pairs with what orders a claim before the stores that follow it: a word of a
        // later holder shows that holder's claim, or something later, in the lock.
        fence(Ordering::Acquire);
        self.lock.load(Ordering::Relaxed) == version << 16
    }

    /// Does all of an exchange but its end, as a thread that is stopped there; the words have their
    /// old values.
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
        for (place, word) in self.log.iter().zip(log) {
            place.store(word, Ordering::Release);
        }
        for part in [first, second] {
            // SAFETY: the caller's word, which lives as long as the borrow that it came from.
            let word = unsafe { AtomicU64::from_ptr(part.word.cast_mut().cast()) };
            word.store(part.new, Ordering::Release);
        }
    }

    /// Takes the lock, as a thread that is stopped right after that.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub(super) fn abandon_lock(&self) {
        lock::hold(&self.lock);
    }

    /// The version. Free or not: a holder has changed nothing yet that counts.
    #[inline]
    pub(super) fn version(&self) -> u64 {
        // Acquire: pairs with the release that freed the lock.
        self.lock.load(Ordering::Acquire) >> 16
    }

    #[inline(always)]
    unsafe fn attempt_compared(&self, a: Part, b: Part) -> Result<usize, Closed> {
        let line = &raw const *self as usize;
        let words = (a.address(), b.address());
        let (old_a, new_a) = (a.old as usize, a.new as usize);
        let (old_b, new_b) = (b.old as usize, b.new as usize);
        // SAFETY: the caller's promise.
        unsafe { exchange::on_cpu(line, words.0, old_a, new_a, words.1, old_b, new_b) }
    }

    #[inline(always)]
    unsafe fn attempt_since(&self, free: u64, a: Part, b: Part) -> Result<usize, Closed> {
        let line = &raw const *self as usize;
        let words = (a.address(), b.address());
        let (new_a, new_b) = (a.new as usize, b.new as usize);
        // SAFETY: the caller's promise.
        unsafe { store_pair_if::on_cpu(line, free as usize, words.0, new_a, words.1, new_b) }
    }
}

#[cfg(test)]
mod tests;
