//! DCAS with the kernel's help (GC96 6.1, after Bershad 1993): one lock word a domain, whose holder anyone may
//! throw out. It is the version number of what the domain covers (GC96 5.1).
//!
//! ```text
//! lock   63 … 16 version v | 15 14 state | 13 … 0 id
//!        FREE(v)  HELD(v, cpu)  CLAIM(v, claimant)  LOCKED(v, generation)
//! log    first, what it held; second, what it held; FREE(v) of the exchange that wrote it
//!
//! exchange   a section: FREE(v) -> HELD(v, cpu) by compare-and-swap; compare; log; log.version = FREE(v); store;
//!            FREE(v+1), the last instruction, on every way out
//! settle     HELD or CLAIM -> CLAIM(v, me); fence; if it is still mine: undo by a section, if log.version = FREE(v);
//!            FREE(v+1)
//! read       FREE(v); loads; still FREE(v)
//! ```
//!
//! What holds, step by step:
//!
//! 1. FREE(v) becomes HELD(v) or LOCKED(v) by one compare-and-swap, and v never comes back: so there is one holder a
//!    version, who changes the words and the log as long as the lock is HELD(v), and nobody else does.
//! 2. A holder that is interrupted does not go on: the kernel moves it to its abort address. What it did stays, and the
//!    lock stays HELD(v). It is told ABORTED, not whether it had claimed; it goes on like everybody who finds the lock
//!    taken. It succeeds only by a later exchange that reaches its end.
//! 3. A claimant replaces HELD(v, cpu) and then fences that CPU. After the fence the holder has stored FREE(v+1), over the
//!    claim, and the claimant finds out; or it never will, and the claimant alone acts for v.
//! 4. The claimant is told by a number that no other call has at that time, not by its CPU. So "still mine" means that
//!    nobody has claimed since, and a stale claimant undoes nothing.
//! 5. A claimant may stop as well. Its recovery is a section that finds CLAIM(v, me) and then stores; who replaces its
//!    claim fences all CPUs. Undoing twice is undoing once, for the log does not change from claim to claim.
//! 6. log.version is written after the rest of the log and before the words: if it is not FREE(v), no word was
//!    changed. A version begins nowhere with a log of its own.
//! 7. A reader that sees FREE(v) before and after its loads has seen no word that a holder of v or later changed, and
//!    all that earlier ones did.
//!
//! An undone exchange never returned, and so never happened. An exchange that returned left FREE behind, so nobody
//! touches its words for its sake any more: words need to live no longer than the calls that name them.
//!
//! LOCKED is the way of a thread that cannot run sections (it is not registered, or a debugger steps it): its signals
//! are blocked, no fence stops it, and the others wait. A child of a fork recovers from one that stayed in its parent.

use crate::platform;
use crate::sequence::{Closed, Restarts, model::Program};
use crate::sync::{AtomicU64, Ordering, fence};

use super::claimants::Claimant;
use super::contention;
use super::lock::{self, BELOW_VERSION, CLAIM, HELD, ID, LOCKED, STATE, VERSION};

/// The largest number of a CPU that an id holds.
pub(crate) const HIGHEST_CPU: usize = ID as usize;

/// Where the words of a [`Line`] lie.
const LOG: usize = 8;
const SPARE: usize = 48;

/// How a sequence ends.
const DONE: usize = 0;
const CHANGED: usize = 1;
const BUSY: usize = 2;
const UNREGISTERED: usize = 3;
const ABORTED: usize = 4;
const LOST: usize = 5;

crate::sequence! {
    /// Changes two words if both hold what they should.
    unsafe fn exchange(
        line: Word, first: Word, old_first: Word, new_first: Word, second: Word, old_second: Word, new_second: Word,
    ) -> Word {
        'abort: { return ABORTED }
        let own = cpu();
        if own > HIGHEST_CPU { return UNREGISTERED }
        let free = load(line);
        // Literals, which AArch64 has in its instructions: BELOW_VERSION, VERSION and HELD.
        if (free & 0xffff) != 0 { return BUSY }
        let freed = free + 0x1_0000;
        let found = cas(line, free, free + own + 0x4000);
        if found != free { return BUSY }
        if load(first) != old_first { commit_release(line, freed); return CHANGED }
        if load(second) != old_second { commit_release(line, freed); return CHANGED }
        store(line + LOG, first);
        store(line + LOG + 8, old_first);
        store(line + LOG + 16, second);
        store(line + LOG + 24, old_second);
        store(line + LOG + 32, free);
        store(first, new_first);
        store(second, new_second);
        commit_release(line, freed);
        DONE
    }

    /// Changes two words if nothing changed since a version (GC96 note 5): what they hold need not be compared.
    unsafe fn exchange_since(
        line: Word, free: Word, first: Word, new_first: Word, second: Word, new_second: Word,
    ) -> Word {
        'abort: { return ABORTED }
        let own = cpu();
        if own > HIGHEST_CPU { return UNREGISTERED }
        let freed = free + 0x1_0000;
        let found = cas(line, free, free + own + 0x4000);
        if found != free { return CHANGED }
        store(line + LOG, first);
        store(line + LOG + 8, load(first));
        store(line + LOG + 16, second);
        store(line + LOG + 24, load(second));
        store(line + LOG + 32, free);
        store(first, new_first);
        store(second, new_second);
        commit_release(line, freed);
        DONE
    }

    /// Puts back what an exchange that will never end had changed.
    unsafe fn undo(
        line: Word, claim: Word, freed: Word, first: Word, old_first: Word, second: Word, old_second: Word,
    ) -> Word {
        if cpu() > HIGHEST_CPU { return UNREGISTERED }
        if load(line) != claim { return LOST }
        prepare(first, old_first);
        prepare(second, old_second);
        commit_release(line, freed);
        DONE
    }
}

const _: () = assert!(VERSION == 0x1_0000 && BELOW_VERSION == 0xffff && HELD == 0x4000);
const _: () = assert!(LOG == std::mem::offset_of!(Line, log));
const _: () = assert!(SPARE == std::mem::offset_of!(Line, spare) && size_of::<Line>() == 64);

/// For the checkers in `verify/`.
pub(super) const SEQUENCES: &[&Program] = &[&exchange::MODEL, &exchange_since::MODEL, &undo::MODEL];

/// What a domain has besides its words: one cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Line {
    lock: AtomicU64,
    log: [AtomicU64; 5],
    /// The second word of an exchange of one: always 0.
    spare: AtomicU64,
    _rest: u64,
}

/// One word's part in an exchange: its address, what it should hold, what it shall hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) word: usize,
    pub(super) old: u64,
    pub(super) new: u64,
}

/// Which exchange, for those that do not succeed at once.
#[derive(Clone, Copy)]
enum Wanted {
    Compared(Part, Part),
    /// With the lock as it was at that version.
    Since(u64, Part, Part),
}

/// How often somebody was thrown out, and how often that undid something, in this process.
pub(super) static REVOKED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
pub(super) static UNDONE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

impl Line {
    pub(super) fn new() -> Line {
        Line {
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
            word: &raw const self.spare as usize,
            old: 0,
            new: 0,
        }
    }

    /// Changes both words, or finds that one of them is not as it should be.
    ///
    /// # Safety
    ///
    /// The words are aligned, different, valid until this returns, and changed in no other way but through this line.
    #[inline(always)]
    pub(super) unsafe fn exchange(&self, first: Part, second: Part) -> bool {
        // SAFETY: the line and the words are valid for loads and stores, and the steps reach nothing else.
        let told = unsafe { self.attempt_compared(first, second) };
        // Only success is worth a way of its own: whoever fails reads again.
        if told == Ok(DONE) {
            return true;
        }
        let (a, b) = (first, second);
        // SAFETY: the caller's promise.
        unsafe { self.compared_slowly(told.ok(), a.word, a.old, a.new, b.word, b.old, b.new) }
    }

    /// Word by word, so that the fast path puts nothing together for it.
    #[cold]
    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "they stay in registers")]
    unsafe fn compared_slowly(
        &self,
        told: Option<usize>,
        first: usize,
        old_first: u64,
        new_first: u64,
        second: usize,
        old_second: u64,
        new_second: u64,
    ) -> bool {
        let part = |word, old, new| Part { word, old, new };
        let first = part(first, old_first, new_first);
        let second = part(second, old_second, new_second);
        // SAFETY: the caller's promise.
        unsafe { self.exchange_slowly(Wanted::Compared(first, second), told) }
    }

    /// Changes both words, or finds that somebody has changed something since the version. It may also be this call,
    /// interrupted, that has used the version up.
    ///
    /// # Safety
    ///
    /// As for [`exchange`](Line::exchange).
    #[inline(always)]
    pub(super) unsafe fn exchange_since(&self, version: u64, first: Part, second: Part) -> bool {
        // SAFETY: the line and the words are valid for loads and stores, and the steps reach nothing else.
        let told = unsafe { self.attempt_since(version << 16, first, second) };
        if told == Ok(DONE) {
            return true;
        }
        let (a, b) = (first, second);
        // SAFETY: the caller's promise.
        unsafe { self.since_slowly(told.ok(), version, a.word, a.new, b.word, b.new) }
    }

    /// As `compared_slowly`.
    #[cold]
    #[inline(never)]
    unsafe fn since_slowly(
        &self,
        told: Option<usize>,
        version: u64,
        first: usize,
        new_first: u64,
        second: usize,
        new_second: u64,
    ) -> bool {
        let part = |word, new| Part { word, old: 0, new };
        let wanted = Wanted::Since(
            version << 16,
            part(first, new_first),
            part(second, new_second),
        );
        // SAFETY: the caller's promise.
        unsafe { self.exchange_slowly(wanted, told) }
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
            self.wait_or_settle(seen);
        }
    }

    /// Is the lock as it was when it was free at that version?
    #[inline(always)]
    pub(super) fn is_still(&self, version: u64) -> bool {
        // Acquire: pairs with what orders a claim before the stores that follow it: a word of a later holder
        // shows that holder's claim, or something later, in the lock.
        fence(Ordering::Acquire);
        self.lock.load(Ordering::Relaxed) == version << 16
    }

    /// Does all of an exchange but its end, as a thread that is stopped there; the words have their old values.
    pub(super) fn abandon(&self, first: Part, second: Part) {
        let free = lock::hold(&self.lock);
        let log = [
            first.word as u64,
            first.old,
            second.word as u64,
            second.old,
            free,
        ];
        for (place, word) in self.log.iter().zip(log) {
            place.store(word, Ordering::Release);
        }
        for part in [first, second] {
            // SAFETY: the caller's word, which lives as long as the borrow that it came from.
            let word = unsafe { AtomicU64::from_ptr(part.word as *mut u64) };
            word.store(part.new, Ordering::Release);
        }
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
        let (old_a, new_a) = (a.old as usize, a.new as usize);
        let (old_b, new_b) = (b.old as usize, b.new as usize);
        // SAFETY: the caller's promise.
        unsafe { exchange::on_cpu(line, a.word, old_a, new_a, b.word, old_b, new_b) }
    }

    #[inline(always)]
    unsafe fn attempt_since(&self, free: u64, a: Part, b: Part) -> Result<usize, Closed> {
        let line = &raw const *self as usize;
        let (new_a, new_b) = (a.new as usize, b.new as usize);
        // SAFETY: the caller's promise.
        unsafe { exchange_since::on_cpu(line, free as usize, a.word, new_a, b.word, new_b) }
    }

    unsafe fn attempt(&self, wanted: Wanted) -> Result<usize, Closed> {
        // SAFETY: the caller's promise.
        unsafe {
            match wanted {
                Wanted::Compared(a, b) => self.attempt_compared(a, b),
                Wanted::Since(free, a, b) => self.attempt_since(free, a, b),
            }
        }
    }

    /// Tries until there is an answer. `told`: how the first attempt ended.
    #[cold]
    unsafe fn exchange_slowly(&self, wanted: Wanted, mut told: Option<usize>) -> bool {
        let mut restarts = Restarts::none();
        let mut registered = false;
        loop {
            match told {
                Some(DONE) => return true,
                Some(CHANGED) => return false,
                Some(BUSY) => {
                    if !self.make_way() {
                        contention::give_way(self);
                    }
                }
                Some(ABORTED) if restarts.again() => {
                    // Perhaps it had claimed: then nobody frees the lock but who throws it out. Not at once: a fence ends
                    // whatever section runs there by now.
                    self.make_way();
                    if let Wanted::Since(free, ..) = wanted {
                        if self.is_over(free) {
                            return false;
                        }
                    }
                }
                Some(UNREGISTERED) if !registered => {
                    registered = true;
                    platform::register_this_thread();
                }
                // SAFETY: the caller's promise.
                _ => return unsafe { self.exchange_locked(wanted) },
            }
            // SAFETY: the caller's promise.
            told = unsafe { self.attempt(wanted) }.ok();
        }
    }

    /// Is the version gone for good? While it is not, somebody may still undo what this call has logged, so the call must
    /// not return; `false` if the version is free, and so this call never had it.
    fn is_over(&self, free: u64) -> bool {
        loop {
            let seen = self.lock.load(Ordering::Acquire);
            if seen == free || seen >> 16 != free >> 16 {
                return seen != free;
            }
            self.wait_or_settle(seen);
        }
    }

    /// For a thread that cannot run the section: by a lock that no fence revokes.
    #[cold]
    unsafe fn exchange_locked(&self, wanted: Wanted) -> bool {
        let _quiet = platform::Quiet::enter();
        let free = loop {
            let seen = self.lock.load(Ordering::Acquire);
            if let Wanted::Since(free, ..) = wanted {
                if seen >> 16 != free >> 16 {
                    return false;
                }
            }
            if seen & BELOW_VERSION != 0 {
                self.wait_or_settle(seen);
            } else if lock::try_lock(&self.lock, seen, seen) {
                break seen;
            }
        };
        let (Wanted::Compared(first, second) | Wanted::Since(_, first, second)) = wanted;
        // SAFETY: the caller's promise; the words are atomic wherever Rust code touches them.
        let [a, b] =
            [first, second].map(|part| unsafe { AtomicU64::from_ptr(part.word as *mut u64) });
        let held = (a.load(Ordering::Relaxed), b.load(Ordering::Relaxed));
        let is_as_wanted = match wanted {
            Wanted::Compared(first, second) => held == (first.old, second.old),
            Wanted::Since(..) => true,
        };
        if is_as_wanted {
            let log = [first.word as u64, held.0, second.word as u64, held.1];
            for (place, word) in self.log.iter().zip(log) {
                place.store(word, Ordering::Relaxed);
            }
            // Release: pairs with the acquire by which a child of a fork claims what stayed half done.
            self.log[4].store(free, Ordering::Release);
            fence(Ordering::Release);
            a.store(first.new, Ordering::Relaxed);
            b.store(second.new, Ordering::Relaxed);
        }
        // Release: pairs with the acquire of every section and reader that finds it free.
        self.lock.store(free + VERSION, Ordering::Release);
        is_as_wanted
    }

    /// Waits until the lock is no longer as it was seen; not for ever: after a while, throws out whoever has it, and says so.
    #[cold]
    fn wait_or_settle(&self, seen: u64) -> bool {
        let is_stuck = !lock::changes(&self.lock, seen);
        if is_stuck {
            self.settle(seen);
        }
        is_stuck
    }

    /// Waits for whoever has the lock, or throws it out. Was somebody thrown out?
    fn make_way(&self) -> bool {
        // Acquire: pairs with the release that freed the lock.
        let seen = self.lock.load(Ordering::Acquire);
        seen & BELOW_VERSION != 0 && self.wait_or_settle(seen)
    }

    /// Throws out whoever has the lock as it was seen, and undoes what they had done. Returns when the lock was
    /// otherwise for a moment at least.
    #[cold]
    fn settle(&self, seen: u64) {
        let generation = u64::from(platform::generation()) & ID;
        let stop: fn(u64) = match seen & STATE {
            HELD => |cpu| platform::fence(cpu as usize),
            CLAIM => |_| platform::fence_all(),
            // Whoever locked it stayed behind in the parent of this process: nothing is left to fence.
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
        REVOKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        stop(seen & ID);
        self.recover(claim, free);
    }

    /// After the fence: what the claim says is undone, unless somebody else does that by now.
    fn recover(&self, claim: u64, free: u64) {
        let freed = free + VERSION;
        if self.lock.load(Ordering::Acquire) != claim {
            return;
        }
        // If the lock is somebody else's by now, this is nonsense, and every use of it below finds that out first.
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
        // SAFETY: while the lock is this claim, the call that wrote the log has not returned, so its words are valid;
        // the section looks at the lock first, and who takes the claim away fences it.
        let told = unsafe {
            undo::on_cpu(
                line,
                claim as usize,
                freed as usize,
                first,
                old_first,
                second,
                old_second,
            )
        };
        match told {
            Ok(DONE) => {
                UNDONE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
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
        let _quiet = platform::Quiet::enter();
        if !lock::try_lock(&self.lock, claim, free) {
            return;
        }
        for (word, old) in [(log[0], log[1]), (log[2], log[3])] {
            // SAFETY: the lock was this claim up to now, so the call that wrote the log has not returned.
            let word = unsafe { AtomicU64::from_ptr(word as usize as *mut u64) };
            word.store(old, Ordering::Relaxed);
        }
        UNDONE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // Release: pairs with the acquire of whoever finds it free.
        self.lock.store(free + VERSION, Ordering::Release);
    }
}
