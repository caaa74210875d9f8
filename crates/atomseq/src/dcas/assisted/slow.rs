//! The ways that an exchange takes when its section did not do it at once: again, in others' way,
//! or without sections.

use super::RevocableLock;
use crate::dcas::contention;
use crate::dcas::lock::{self, ABORTED, BELOW_VERSION, BUSY, DONE, REFUSED, UNREGISTERED, VERSION};
use crate::dcas::part::Part;
use crate::generated::Restarts;
use crate::platform;
use crate::sequence::Closed;
use crate::sync::{AtomicU64, Ordering, fence};

/// Which exchange, for those that do not succeed at once.
#[derive(Clone, Copy)]
enum Wanted {
    Compared(Part, Part),
    /// With the lock as it was at that version.
    Since(u64, Part, Part),
}

impl RevocableLock {
    /// Word by word, so that the fast path puts nothing together for it.
    #[cold]
    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "they stay in registers")]
    pub(super) unsafe fn compared_slowly(
        &self,
        outcome: Option<usize>,
        first: *const AtomicU64,
        old_first: u64,
        new_first: u64,
        second: *const AtomicU64,
        old_second: u64,
        new_second: u64,
    ) -> bool {
        let part = |word, old, new| Part { word, old, new };
        let first = part(first, old_first, new_first);
        let second = part(second, old_second, new_second);
        // SAFETY: the caller's promise.
        unsafe { self.exchange_slowly(Wanted::Compared(first, second), outcome) }
    }

    /// As `compared_slowly`.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn since_slowly(
        &self,
        outcome: Option<usize>,
        version: u64,
        first: *const AtomicU64,
        new_first: u64,
        second: *const AtomicU64,
        new_second: u64,
    ) -> bool {
        let part = |word, new| Part { word, old: 0, new };
        let wanted = Wanted::Since(
            version << 16,
            part(first, new_first),
            part(second, new_second),
        );
        // SAFETY: the caller's promise.
        unsafe { self.exchange_slowly(wanted, outcome) }
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

    /// Tries until there is an answer. `outcome`: how the first attempt ended.
    #[cold]
    unsafe fn exchange_slowly(&self, wanted: Wanted, mut outcome: Option<usize>) -> bool {
        let mut restarts = Restarts::none();
        let mut registered = false;
        loop {
            match outcome {
                Some(DONE) => return true,
                Some(REFUSED) => return false,
                Some(BUSY) => {
                    if !self.ensure_free() {
                        contention::back_off(self);
                    }
                }
                Some(ABORTED) if restarts.again() => {
                    // Perhaps it had claimed: then nobody frees the lock but who throws it out. Not
                    // at once: a fence ends whatever section runs there by now.
                    self.ensure_free();
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
            outcome = unsafe { self.attempt(wanted) }.ok();
        }
    }

    /// Is the version gone for good? While it is not, somebody may still roll back what this call
    /// has logged, so the call must not return; `false` if the version is free, and so this call
    /// never had it.
    fn is_over(&self, free: u64) -> bool {
        loop {
            let seen = self.lock.load(Ordering::Acquire);
            if seen == free || seen >> 16 != free >> 16 {
                return seen != free;
            }
            self.wait_or_revoke(seen);
        }
    }

    /// For a thread that cannot run the section: by a lock that no fence revokes. Signals are
    /// blocked while it has that, and not while it waits.
    #[cold]
    unsafe fn exchange_locked(&self, wanted: Wanted) -> bool {
        loop {
            let seen = self.lock.load(Ordering::Acquire);
            if let Wanted::Since(free, ..) = wanted {
                if seen >> 16 != free >> 16 {
                    return false;
                }
            }
            if seen & BELOW_VERSION != 0 {
                self.wait_or_revoke(seen);
                continue;
            }
            let _quiet = platform::SignalsBlocked::enter();
            if lock::try_lock(&self.lock, seen, seen) {
                // SAFETY: the caller's promise.
                return unsafe { self.exchange_and_unlock(wanted, seen) };
            }
        }
    }

    /// What the lock is for, which was free as given.
    unsafe fn exchange_and_unlock(&self, wanted: Wanted, free: u64) -> bool {
        let (Wanted::Compared(first, second) | Wanted::Since(_, first, second)) = wanted;
        // SAFETY: the caller's promise; the words are atomic wherever Rust code touches them.
        let [a, b] =
            [first, second].map(|part| unsafe { AtomicU64::from_ptr(part.word.cast_mut().cast()) });
        let held = (a.load(Ordering::Relaxed), b.load(Ordering::Relaxed));
        let is_as_wanted = match wanted {
            Wanted::Compared(first, second) => held == (first.old, second.old),
            Wanted::Since(..) => true,
        };
        if is_as_wanted {
            let log = [
                first.address() as u64,
                held.0,
                second.address() as u64,
                held.1,
            ];
            for (place, word) in self.log.iter().zip(log) {
                place.store(word, Ordering::Relaxed);
            }
            // Release: pairs with the acquire by which a child of a fork claims what stayed half
            // done.
            self.log[4].store(free, Ordering::Release);
            fence(Ordering::Release);
            a.store(first.new, Ordering::Relaxed);
            b.store(second.new, Ordering::Relaxed);
        }
        // Release: pairs with the acquire of every section and reader that finds it free.
        self.lock
            .store(free.wrapping_add(VERSION), Ordering::Release);
        is_as_wanted
    }
}
