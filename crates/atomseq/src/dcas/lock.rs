//! The lock word of OS-assisted changes, as far as all of them use it alike: its parts, patience
//! with its holder, freeing it on the holder's own CPU, and the lock that no fence revokes.

use crate::platform;
use crate::sync::{AtomicU64, Ordering, fence, spin_loop};

pub(super) const VERSION: u64 = 1 << 16;
pub(super) const STATE: u64 = 3 << 14;
pub(super) const ID: u64 = (1 << 14) - 1;
pub(super) const BELOW_VERSION: u64 = STATE | ID;
pub(super) const HELD: u64 = 1 << 14;
pub(super) const CLAIM: u64 = 2 << 14;
pub(super) const LOCKED: u64 = 3 << 14;

/// How the sequences of OS-assisted changes end.
pub(crate) const DONE: usize = 0;
/// A word had changed, or the state does not allow it.
pub(crate) const REFUSED: usize = 1;
/// Another operation holds the lock.
pub(crate) const BUSY: usize = 2;
/// The thread cannot run sections.
pub(crate) const UNREGISTERED: usize = 3;
/// The kernel aborted the section.
pub(crate) const ABORTED: usize = 4;
/// The lock is no longer as it was seen.
pub(super) const LOST: usize = 5;
/// The holder's CPU is another one.
#[cfg_attr(
    not(atomseq_sections),
    allow(dead_code, reason = "the section alone returns it")
)]
pub(super) const ELSEWHERE: usize = 6;
/// The holder had changed nothing.
pub(super) const UNLOGGED: usize = 7;

/// How often a thread looks again before it throws the holder out, and how many pauses lie between.
const PATIENCE: usize = 32;
const PAUSES: usize = 8;

/// Waits until the lock is no longer as it was seen; `false`: it still is, after a while.
pub(super) fn wait_for_change(lock: &AtomicU64, seen: u64) -> bool {
    (0..PATIENCE).any(|_| {
        let changed = lock.load(Ordering::Relaxed) != seen;
        if !changed {
            (0..PAUSES).for_each(|_| spin_loop());
        }
        changed
    })
}

/// Makes the lock LOCKED; signals are blocked.
pub(super) fn try_lock(lock: &AtomicU64, from: u64, free: u64) -> bool {
    let locked = free + LOCKED + (u64::from(platform::generation()) & ID);
    // Acquire: pairs with the release that freed the lock.
    let taken = lock
        .compare_exchange(from, locked, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok();
    // Release: pairs with a reader's acquire fence: who sees a word that is stored next sees the
    // lock taken.
    fence(Ordering::Release);
    taken
}

/// Is this the lock of a holder whose CPU the thread is on, as far as it knows?
pub(super) fn is_held_here(seen: u64) -> bool {
    seen & STATE == HELD && (seen & ID) as usize == platform::current_cpu()
}

crate::sequence! {
    /// Frees the lock of a holder whose CPU this is: it does not run, and will not go on.
    unsafe fn free_here(lock: Word, held: Word, freed: Word) -> bool {
        let own = cpu();
        if own != (held & 0x3fff) { return false }
        if load(lock) != held { return false }
        commit_release(lock, freed);
        true
    }
}

const _: () = assert!(ID == 0x3fff);

/// For the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[&free_here::MODEL];

/// The same for the lock as it was seen; whether it was so.
#[cold]
#[inline(never)]
pub(super) fn try_free_here(lock: &AtomicU64, seen: u64, freed: u64) -> bool {
    let address = &raw const *lock as usize;
    // SAFETY: the lock, as its holder itself would free it.
    unsafe { free_here::on_cpu(address, seen as usize, freed as usize) == Ok(true) }
}

/// Takes the lock as a section does that is stopped right after that, to test recovery; returns it
/// as it was free.
#[cfg(any(test, feature = "unstable-internals"))]
pub(super) fn hold(lock: &AtomicU64) -> u64 {
    loop {
        // Acquire: pairs with the release that freed the lock.
        let seen = lock.load(Ordering::Acquire);
        let held = (seen & !BELOW_VERSION) + HELD + platform::current_cpu() as u64;
        let free = seen & STATE == 0;
        let taken = free
            && lock
                .compare_exchange(seen, held, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if taken {
            return seen;
        }
    }
}
