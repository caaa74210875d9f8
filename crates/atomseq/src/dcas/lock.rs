//! The lock word of OS-assisted operations, as far as [`assisted`](super::assisted) and
//! [`shadow`](super::shadow) use it alike: its fields, the time before a holder is revoked, freeing
//! the lock on the holder's own CPU, and the irrevocable lock of threads without sections.

use crate::platform;
use crate::sync::{AtomicU64, Ordering, fence, spin_loop};

/// The version counts in steps of this. Below it lie the state and the id.
pub(super) const VERSION: u64 = 1 << 16;
pub(super) const STATE: u64 = 3 << 14;
pub(super) const ID: u64 = (1 << 14) - 1;
pub(super) const BELOW_VERSION: u64 = STATE | ID;
/// States, with what the id is. This one: the CPU whose section holds the lock.
pub(super) const HELD: u64 = 1 << 14;
/// The number of the call that revokes the lock.
pub(super) const CLAIM: u64 = 2 << 14;
/// The fork generation of the process whose thread holds the lock irrevocably.
pub(super) const LOCKED: u64 = 3 << 14;

/// Outcomes of a section of OS-assisted changes. This one: the section reached its end.
pub(crate) const DONE: usize = 0;
/// A word or the version differs, or the state does not allow the change; nothing was changed.
pub(crate) const REFUSED: usize = 1;
/// The lock is not free, or it is another CPU's turn.
pub(crate) const BUSY: usize = 2;
/// The kernel does not know the thread's CPU: it is not registered for sections.
pub(crate) const UNREGISTERED: usize = 3;
/// The kernel interrupted the section, perhaps after it had taken the lock.
pub(crate) const ABORTED: usize = 4;
/// The lock is no longer as the caller saw it.
pub(super) const LOST: usize = 5;
/// The thread is not on the holder's CPU.
#[cfg_attr(
    not(atomseq_sections),
    allow(dead_code, reason = "the section alone returns it")
)]
pub(super) const ELSEWHERE: usize = 6;
/// The holder had logged nothing, and so had changed nothing.
pub(super) const UNLOGGED: usize = 7;

/// How many times a thread looks at the lock before it revokes the holder.
const PATIENCE: usize = 32;

/// Half of the time between two looks.
fn pause() {
    spin_loop();
    spin_loop();
    spin_loop();
    spin_loop();
}

/// Waits until the lock differs from what was seen. Returns `false` if it still does not after
/// `PATIENCE` looks.
pub(super) fn wait_for_change(lock: &AtomicU64, seen: u64) -> bool {
    // No iterator, and no inner loop: tests go through this instruction by instruction, and in a
    // build that is not optimized nine in ten of their steps were here.
    let mut looks = 0;
    while looks < PATIENCE {
        // Relaxed: a hint. The caller loads the lock again, with acquire, before it relies on it.
        if lock.load(Ordering::Relaxed) != seen {
            return true;
        }
        pause();
        pause();
        looks += 1;
    }
    false
}

/// Changes the lock from `from`, which is FREE or this call's claim, to LOCKED at the version of
/// `free`. Returns whether it did. The caller has blocked all signals: a handler that finds its own
/// thread's LOCKED would wait indefinitely.
pub(super) fn try_lock(lock: &AtomicU64, from: u64, free: u64) -> bool {
    let locked = free + LOCKED + (u64::from(platform::generation()) & ID);
    // Acquire: pairs with the release store that freed the lock. Release pairs with nothing: the
    // fence below orders the stores that follow, which a release here would not.
    let taken = lock
        .compare_exchange(from, locked, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok();
    // Release fence: pairs with the acquire fence of readers. A reader that sees a word that is
    // stored after this fence also sees the lock taken. If the lock was not taken, it does nothing.
    fence(Ordering::Release);
    taken
}

/// Returns whether this is the lock of a holder on the CPU that the thread ran on a moment ago.
pub(super) fn is_held_here(seen: u64) -> bool {
    seen & STATE == HELD && (seen & ID) as usize == platform::current_cpu()
}

crate::sequence! {
    /// Frees the lock of a holder on this CPU. That holder was interrupted and never resumes.
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

/// Frees the lock if it is still as seen and its holder's CPU is this one. Returns whether it did.
#[cold]
#[inline(never)]
pub(super) fn try_free_here(lock: &AtomicU64, seen: u64, freed: u64) -> bool {
    let address = &raw const *lock as usize;
    // SAFETY: the section stores only to the lock, which `lock` borrows, and only the value by
    // which the holder would free it.
    unsafe { free_here::on_cpu(address, seen as usize, freed as usize) == Ok(true) }
}

/// Takes the lock like a section that is stopped right after that, to test recovery. Returns the
/// free lock word that it replaced.
#[cfg(any(test, feature = "unstable-internals"))]
pub(super) fn hold(lock: &AtomicU64) -> u64 {
    loop {
        // Acquire: pairs with the release store that freed the lock.
        let seen = lock.load(Ordering::Acquire);
        let held = (seen & !BELOW_VERSION) + HELD + platform::current_cpu() as u64;
        let free = seen & STATE == 0;
        // Acquire: as above. Release pairs with nothing: the stores that follow, in `abandon`,
        // release themselves.
        let taken = free
            && lock
                .compare_exchange(seen, held, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if taken {
            return seen;
        }
    }
}
