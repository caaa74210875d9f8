//! The sleeping and waking of locks, over a flag and a word beside it. The word says whether a
//! thread sleeps, and threads sleep on it.
//!
//! ```text
//! release     if the word is HANDED: replace it by WAITING
//!             clear the flag; read the word; if it is WAITING: store NO_WAITER, wake one thread
//! acquire     announce: store WAITING; waiter_barrier; test-and-set
//!             if the flag was set: sleep while the word is WAITING, and announce again
//! hand over   replace WAITING by HANDED without clearing the flag; wake one thread
//!             a thread that has slept and whose announcement replaces HANDED holds the flag
//! ```
//!
//! 1. No wake-up is lost: either the test-and-set of an announced waiter finds the flag clear, or
//!    the thread that clears it later finds the announcement.
//! 2. Only a thread that then wakes a sleeper replaces WAITING by NO_WAITER. A thread that has
//!    slept announces itself again, whatever woke it, even if its deadline has passed. While any
//!    thread sleeps, either the word is therefore WAITING, or a woken thread is about to make it
//!    so. Until that thread has run, or another one announces itself, releases wake no other.
//! 3. HANDED stays until a waiter replaces it. If none does, because the woken thread has exited,
//!    or does not exist in the child of a fork, the lock stays held until a forced release.
//! 4. A releaser that holds the flag finds no HANDED before it clears the flag. It acquired the
//!    flag when the word was not HANDED, or by replacing HANDED, and only the holder can hand over.
//!    A releaser that does find HANDED is thus a forced release. It first takes the flag out of the
//!    word, as a waiter would.
//!
//! The models in `verify/` compile this file a second time.

use crate::sync::{AtomicU32, Ordering, pause, pauses, wake_one};

/// No thread sleeps, or a sleeper is being woken.
pub(super) const NO_WAITER: u32 = 0;
/// A thread sleeps, or is about to sleep, or has slept.
const WAITING: u32 = 1;
/// The flag is set, and the thread that replaces this value holds it.
const HANDED: u32 = 2;

/// The flag of a lock: the part of a test-and-set that sleeping needs.
pub(super) trait Flag {
    /// Sets the flag. Returns whether it was clear.
    fn test_and_set(&self) -> bool;
    /// Returns whether the flag is set.
    fn is_set(&self) -> bool;
    /// The barrier between an announcement and the test-and-set after it.
    fn waiter_barrier(&self);
    /// Clears the flag, before the caller reads the word.
    ///
    /// # Safety
    ///
    /// The caller holds the flag.
    unsafe fn clear_then_look(&self);
    /// Called by a thread that is about to sleep.
    fn blocks(&self);
    /// Called by a thread to which the flag was handed over.
    fn handed_over(&self);
}

/// Sets the flag, sleeping until it can. Returns false if `sleep` has reported a timeout.
///
/// `sleep` gets a word and a value. It sleeps while the word holds the value, until it is woken, or
/// for no reason, and returns true. It returns false on a timeout, without having slept.
pub(super) fn acquire(
    flag: &impl Flag,
    word: &AtomicU32,
    mut sleep: impl FnMut(&AtomicU32, u32) -> bool,
) -> bool {
    for round in 0..pauses() {
        if !flag.is_set() && flag.test_and_set() {
            return true;
        }
        pause(round);
    }
    let mut slept = false;
    loop {
        let expected = announce(word, slept);
        if expected == HANDED && slept {
            flag.handed_over();
            return true;
        }
        if expected != HANDED {
            flag.waiter_barrier();
            // WAITING stays after this, because this thread cannot know whether it was the only
            // waiter.
            if flag.test_and_set() {
                return true;
            }
        }
        flag.blocks();
        // A thread that sleeps on HANDED is not lost either: the thread that takes the flag over
        // leaves WAITING behind.
        let expected = if expected == HANDED { HANDED } else { WAITING };
        if !sleep(word, expected) {
            return false;
        }
        slept = true;
        for round in 0..pauses() {
            // Relaxed: hints. Until this thread has announced itself again, no release makes a
            // system call for it.
            if !flag.is_set() || word.load(Ordering::Relaxed) == HANDED {
                break;
            }
            pause(round);
        }
    }
}

/// Makes the word WAITING, and returns its previous value. If this thread has not slept, HANDED
/// stays, because it is meant for a thread that has.
fn announce(word: &AtomicU32, slept: bool) -> u32 {
    // SeqCst: before the test-and-set, together with the fence in `waiter_barrier`. Its Acquire
    // pairs with the Release in `hand_over`.
    if slept {
        return word.swap(WAITING, Ordering::SeqCst);
    }
    // Relaxed: the exchange reads the word again.
    let mut current = word.load(Ordering::Relaxed);
    while current != HANDED {
        match word.compare_exchange(current, WAITING, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => break,
            Err(other) => current = other,
        }
    }
    current
}

/// Clears the flag, and wakes a thread if one sleeps.
///
/// # Safety
///
/// The caller holds the flag, or knows that the thread that holds it, or to which it was handed
/// over, no longer exists.
#[inline(always)]
pub(super) unsafe fn release(flag: &impl Flag, word: &AtomicU32) {
    // Relaxed: a holder cannot read a stale HANDED, because it has synchronized with the waiter
    // that replaced it, or is that waiter.
    if word.load(Ordering::Relaxed) == HANDED && !take_back(word) {
        return;
    }
    // SAFETY: the caller holds the flag, or knows that its holder no longer exists, or `take_back`
    // has just taken the flag from the word.
    unsafe { flag.clear_then_look() }
    // SeqCst: not before the flag is cleared; see `clear_then_look`.
    if word.load(Ordering::SeqCst) != NO_WAITER {
        wake(word);
    }
}

/// Takes a flag that was handed over; the caller then holds it. Returns false if another thread has
/// replaced HANDED first, and holds it.
#[cold]
fn take_back(word: &AtomicU32) -> bool {
    // Acquire: pairs with the Release in `hand_over`. Relaxed on failure: the flag is another
    // thread's.
    word.compare_exchange(HANDED, WAITING, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
}

#[cold]
fn wake(word: &AtomicU32) {
    // Fails, and changes nothing, if another holder has handed over since. Relaxed: nothing that
    // depends on the value is read, and the woken thread synchronizes through the flag.
    let woken = word.compare_exchange(WAITING, NO_WAITER, Ordering::Relaxed, Ordering::Relaxed);
    if woken.is_ok() {
        wake_one(word);
    }
}

/// Hands the flag over, still set, to a waiting thread. Clears it if no thread waits.
///
/// # Safety
///
/// The requirements of [`release`].
#[cold]
pub(super) unsafe fn hand_over(flag: &impl Flag, word: &AtomicU32) {
    // Release: pairs with the swap in `announce`, and with `take_back`. Relaxed on failure: nothing
    // is read.
    let handed = word.compare_exchange(WAITING, HANDED, Ordering::Release, Ordering::Relaxed);
    if handed.is_ok() {
        if wake_one(word) {
            return;
        }
        // No thread slept. A thread that was about to sleep finds HANDED and takes the flag. If
        // there is none, this thread takes back the flag, or one that others have handed over
        // meanwhile, which it then holds like any waiter.
        if !take_back(word) {
            return;
        }
    }
    // SAFETY: the caller holds the flag and has not handed it over, or `take_back` has just taken
    // the flag from the word.
    unsafe { release(flag, word) }
}
