//! The slow paths of an exchange whose section did not succeed at the first attempt: retries,
//! waiting for or revoking a holder, and the lock for threads without sections.

use super::RevocableLock;
use crate::dcas::contention;
use crate::dcas::lock::{self, ABORTED, BELOW_VERSION, BUSY, DONE, REFUSED, UNREGISTERED, VERSION};
use crate::dcas::part::Part;
use crate::generated::Restarts;
use crate::platform;
use crate::sequence::Closed;
use crate::sync::{AtomicU64, Ordering, fence};

/// The operation that a slow path carries out.
#[derive(Clone, Copy)]
enum Wanted {
    /// Changes both words if both have their old values.
    Compared(Part, Part),
    /// Stores both new values if the lock is still FREE as given.
    Since(u64, Part, Part),
}

impl RevocableLock {
    /// Continues an [`exchange`](RevocableLock::exchange) after its first attempt. The parameters
    /// are separate words, so that the fast path builds no structure for this call.
    ///
    /// # Safety
    ///
    /// As for [`exchange`](RevocableLock::exchange).
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

    /// Continues a [`store_pair_if`](RevocableLock::store_pair_if) after its first attempt. The
    /// parameters are separate words, as in `compared_slowly`.
    ///
    /// # Safety
    ///
    /// As for [`store_pair_if`](RevocableLock::store_pair_if).
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

    /// Runs the section of this operation once. The safety conditions are those of the operation.
    unsafe fn attempt(&self, wanted: Wanted) -> Result<usize, Closed> {
        // SAFETY: the caller's promise.
        unsafe {
            match wanted {
                Wanted::Compared(a, b) => self.attempt_compared(a, b),
                Wanted::Since(free, a, b) => self.attempt_since(free, a, b),
            }
        }
    }

    /// Retries the operation until it succeeds or finds a difference. `outcome` is that of the
    /// first attempt: `None` if this process runs no sections. The safety conditions are those of
    /// the operation.
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
                    // The aborted attempt may have taken the lock; then only a rollback releases
                    // it. This waits before it revokes, because a fence would abort whatever
                    // section runs on that CPU by now.
                    self.ensure_free();
                    if let Wanted::Since(free, ..) = wanted {
                        if self.wait_until_over(free) {
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

    /// Waits until this version is over or free, and returns whether it is over. While it is
    /// neither, another thread may still roll back what this call has logged, so this call must not
    /// return. If the version is free, this call's attempt never took the lock.
    fn wait_until_over(&self, free: u64) -> bool {
        loop {
            // Acquire: pairs with the release store that freed the lock.
            let seen = self.lock.load(Ordering::Acquire);
            if seen == free || seen >> 16 != free >> 16 {
                return seen != free;
            }
            self.wait_or_revoke(seen);
        }
    }

    /// Carries out the operation of a thread that cannot run sections, under a lock that no fence
    /// revokes. Signals are blocked while the thread holds the lock, but not while it waits for it.
    #[cold]
    unsafe fn exchange_locked(&self, wanted: Wanted) -> bool {
        loop {
            // Acquire: pairs with the release store that freed the lock.
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
            let _signals = platform::SignalsBlocked::enter();
            if lock::try_lock(&self.lock, seen, seen) {
                // SAFETY: the caller's promise.
                return unsafe { self.exchange_and_unlock(wanted, seen) };
            }
        }
    }

    /// Compares, logs and stores, and frees the lock, which was FREE as given. The safety
    /// conditions are those of the operation; the thread holds the lock as LOCKED.
    unsafe fn exchange_and_unlock(&self, wanted: Wanted, free: u64) -> bool {
        let (Wanted::Compared(first, second) | Wanted::Since(_, first, second)) = wanted;
        // SAFETY: the caller's promise: the words are valid and aligned. Rust code accesses them
        // only as atomics.
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
            // Release: pairs with the acquire in `revoke`, by which a child of a fork claims a lock
            // that a thread of its parent held. The fence orders the log before the words, as
            // invariant 6 requires, and pairs with the acquire fence of readers.
            self.log[4].store(free, Ordering::Release);
            fence(Ordering::Release);
            a.store(first.new, Ordering::Relaxed);
            b.store(second.new, Ordering::Relaxed);
        }
        // Release: pairs with the acquire loads of sections and readers that find the lock free.
        self.lock
            .store(free.wrapping_add(VERSION), Ordering::Release);
        is_as_wanted
    }
}
