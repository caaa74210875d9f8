//! The slow paths of an exchange whose section did not succeed at the first attempt: retries,
//! waiting for or revoking a holder, and the lock for threads without sections.

use super::{RevocableLock, STAMP};
use crate::dcas::contention;
use crate::dcas::lock::{self, ABORTED, BELOW_VERSION, BUSY, DONE, REFUSED, UNREGISTERED, VERSION};
use crate::dcas::part::Part;
use crate::generated::Restarts;
use crate::platform;
use crate::sequence::Closed;
use crate::sync::{AtomicU64, Ordering, fence};

/// The operation that a slow path carries out.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// Changes both words if both have their old values.
    Exchange(Part, Part),
    /// Stores both new values if the lock is still FREE as given.
    StorePairIf(u64, Part, Part),
    /// Stores both new values if the condition holds under the irrevocable lock.
    StorePairWhere(&'a dyn Fn() -> bool, Part, Part),
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
    pub(super) unsafe fn continue_exchange(
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
        unsafe { self.exchange_slowly(Wanted::Exchange(first, second), outcome) }
    }

    /// Continues a [`store_pair_if`](RevocableLock::store_pair_if) after its first attempt. The
    /// parameters are separate words, as in `continue_exchange`.
    ///
    /// # Safety
    ///
    /// As for [`store_pair_if`](RevocableLock::store_pair_if).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn continue_store_pair_if(
        &self,
        outcome: Option<usize>,
        version: u64,
        first: *const AtomicU64,
        new_first: u64,
        second: *const AtomicU64,
        new_second: u64,
    ) -> bool {
        let part = |word, new| Part { word, old: 0, new };
        let wanted = Wanted::StorePairIf(
            version << 16,
            part(first, new_first),
            part(second, new_second),
        );
        // SAFETY: the caller's promise.
        unsafe { self.exchange_slowly(wanted, outcome) }
    }

    /// Stores both new values and returns `true` if `holds` does, which is called under the
    /// irrevocable lock and may only load words. Otherwise returns `false`, having changed nothing.
    ///
    /// # Safety
    ///
    /// As for [`exchange`](RevocableLock::exchange).
    #[cold]
    #[inline(never)]
    pub(in crate::dcas) unsafe fn store_pair_where(
        &self,
        holds: &dyn Fn() -> bool,
        first: Part,
        second: Part,
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.exchange_locked(Wanted::StorePairWhere(holds, first, second)) }
    }

    /// Runs the section of this operation once. The safety conditions are those of the operation.
    unsafe fn attempt(&self, wanted: Wanted<'_>) -> Result<usize, Closed> {
        // SAFETY: the caller's promise.
        unsafe {
            match wanted {
                Wanted::Exchange(a, b) => self.attempt_exchange(a, b),
                Wanted::StorePairIf(free, a, b) => self.attempt_store_pair_if(free, a, b),
                Wanted::StorePairWhere(..) => Err(Closed),
            }
        }
    }

    /// Retries the operation until it succeeds or finds a difference. `outcome` is that of the
    /// first attempt: `None` if this process runs no sections. The safety conditions are those of
    /// the operation.
    #[cold]
    unsafe fn exchange_slowly(&self, wanted: Wanted<'_>, mut outcome: Option<usize>) -> bool {
        let mut restarts = Restarts::none();
        let mut registered = false;
        loop {
            match outcome {
                Some(DONE) => return true,
                Some(REFUSED) => return false,
                Some(BUSY) => {
                    if !self.wait_out_holder() {
                        contention::back_off(self);
                    }
                }
                Some(ABORTED) if restarts.again() => {
                    // The aborted attempt may have taken the lock; then only a rollback releases
                    // it. If this thread is still on that CPU, it rolls back at once. Otherwise it
                    // waits before it revokes: another thread may roll back first, and the fence of
                    // that CPU would abort the section that runs there by now.
                    self.wait_out_holder();
                    if let Wanted::StorePairIf(free, ..) = wanted {
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

    /// Waits until the lock is FREE(v), as given, or past version v. Returns whether it is past.
    /// Until then another thread may still roll back what this call has logged, so this call must
    /// not return. If the lock is FREE(v), this call's attempt never took it.
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
    unsafe fn exchange_locked(&self, wanted: Wanted<'_>) -> bool {
        loop {
            // Acquire: pairs with the release store that freed the lock.
            let seen = self.lock.load(Ordering::Acquire);
            if let Wanted::StorePairIf(free, ..) = wanted {
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
    unsafe fn exchange_and_unlock(&self, wanted: Wanted<'_>, free: u64) -> bool {
        let (Wanted::Exchange(first, second)
        | Wanted::StorePairIf(_, first, second)
        | Wanted::StorePairWhere(_, first, second)) = wanted;
        // SAFETY: the caller's promise: the words are valid and aligned. Rust code accesses them
        // only as atomics.
        let [a, b] =
            [first, second].map(|part| unsafe { AtomicU64::from_ptr(part.word.cast_mut().cast()) });
        // Relaxed, for all accesses to words and log but one: only this thread changes them now.
        // `try_lock` acquired what earlier holders stored, and the last store below releases.
        let held = (a.load(Ordering::Relaxed), b.load(Ordering::Relaxed));
        let is_as_wanted = match wanted {
            Wanted::Exchange(first, second) => held == (first.old, second.old),
            Wanted::StorePairIf(..) => true,
            Wanted::StorePairWhere(holds, ..) => holds(),
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
            // Release, and the release fence: they order the stamp after the rest of the log, and
            // the words after the stamp, as invariant 6 requires. Only a child of a fork revokes
            // this lock, and it has a copy of this memory: no load of the child pairs with these
            // stores. What counts is the order in which they reach the memory that `fork` copies.
            // Readers need only the release fence in `try_lock`.
            self.log[STAMP].store(free, Ordering::Release);
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
