//! Threads that sleep until a flag is clear: a flag, and a word beside it that says whether
//! somebody sleeps. The word is also what they sleep on.
//!
//! ```text
//! release   if the word is HANDED: make it WAITING; clear the flag, then look at the word; if it is WAITING: make it
//!           NOBODY, wake one
//! acquire   announce: make the word WAITING; waiter_barrier; test-and-set; or sleep while the word is WAITING, and announce again
//! hand over make the word HANDED instead of clearing the flag, wake one: who has slept and then replaces HANDED by its
//!           announcement, holds it
//! ```
//!
//! Either the test-and-set of whoever announced itself finds the flag clear, or whoever clears it
//! afterwards finds the announcement. Only WAITING becomes NOBODY, only by one that then wakes a
//! sleeper, and who has slept announces itself again whatever woke it, even if its time is up: so
//! while somebody sleeps, either the word is WAITING or somebody is on the way to make it so. Until
//! that one runs, releases wake nobody else.
//!
//! HANDED stays until a waiter replaces it. If no waiter does, since the one that was woken has
//! exited, or a fork left it behind, the lock stays held until it is released by force. A releaser
//! that holds the flag never finds HANDED before it clears the flag: it took the flag when the word
//! was not HANDED, or by replacing HANDED, and only it could hand over. So a releaser that does is
//! one that releases by force, and first takes the flag out of the word, as a waiter would.
//!
//! Models in `verify/` compile this file a second time.

use crate::sync::{AtomicU32, Ordering, pause, pauses, wake_one};

/// Nobody sleeps, or whoever does is being woken.
pub(super) const NOBODY: u32 = 0;
/// Somebody sleeps, or is about to, or did.
const WAITING: u32 = 1;
/// The flag is set, and belongs to whoever replaces this.
const HANDED: u32 = 2;

/// What is waited for: the part of a test-and-set that waiting needs.
pub(super) trait Flag {
    /// Sets it; true if it was clear.
    fn test_and_set(&self) -> bool;
    /// Is it set?
    fn is_set(&self) -> bool;
    /// Between an announcement and the test-and-set after it.
    fn waiter_barrier(&self);
    /// Clears it, before a look at the announcement.
    ///
    /// # Safety
    ///
    /// Whoever calls holds it.
    unsafe fn clear_then_look(&self);
    /// The caller is about to sleep.
    fn blocks(&self);
    /// The caller was handed the flag.
    fn handed_over(&self);
}

/// Sets the flag, and sleeps until that succeeds; false if `sleep` said so.
///
/// `sleep` sleeps while the word that it is given holds the value that it is given, or until it was
/// woken, or for no reason, and returns true; or returns false without having slept, and then the
/// waiting ends.
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
            // Whoever sets it here leaves WAITING behind, for it cannot know whether it was the
            // only one.
            if flag.test_and_set() {
                return true;
            }
        }
        flag.blocks();
        // Of one who sleeps on HANDED, whoever takes the flag over leaves WAITING behind, too.
        let expected = if expected == HANDED { HANDED } else { WAITING };
        if !sleep(word, expected) {
            return false;
        }
        slept = true;
        for round in 0..pauses() {
            // Relaxed: hints. As long as this thread has not announced itself again, nobody makes a
            // system call for it.
            if !flag.is_set() || word.load(Ordering::Relaxed) == HANDED {
                break;
            }
            pause(round);
        }
    }
}

/// Makes the word WAITING; returns what it was. Of one who has not slept, HANDED stays: it is for
/// those who have.
fn announce(word: &AtomicU32, slept: bool) -> u32 {
    // SeqCst: before the test-and-set, with the fence in `waiter_barrier`. Acquire: pairs with the
    // Release in `hand_over`.
    if slept {
        return word.swap(WAITING, Ordering::SeqCst);
    }
    // Relaxed: the exchange looks again.
    let mut current = word.load(Ordering::Relaxed);
    while current != HANDED {
        match word.compare_exchange(current, WAITING, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => break,
            Err(other) => current = other,
        }
    }
    current
}

/// Clears the flag, and wakes somebody if there is somebody.
///
/// # Safety
///
/// The caller holds the flag, or knows that its holder, or the thread it was handed to, does not
/// exist any more.
#[inline(always)]
pub(super) unsafe fn release(flag: &impl Flag, word: &AtomicU32) {
    // Relaxed: a holder finds no older HANDED here, for it synchronized with the waiter that
    // replaced it, or is that waiter.
    if word.load(Ordering::Relaxed) == HANDED && !take_back(word) {
        return;
    }
    // SAFETY: the caller holds the flag; or it released by force, and the flag came to it from the
    // word.
    unsafe { flag.clear_then_look() }
    // SeqCst: not before the flag was cleared, as `clear_then_look` says.
    if word.load(Ordering::SeqCst) != NOBODY {
        wake(word);
    }
}

/// Takes the flag that was handed over, for a thread that holds it from then on; false if another
/// thread has replaced HANDED meanwhile, and holds it.
#[cold]
fn take_back(word: &AtomicU32) -> bool {
    // Acquire: pairs with the Release in `hand_over`. Relaxed: the flag is another thread's.
    word.compare_exchange(HANDED, WAITING, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
}

#[cold]
fn wake(word: &AtomicU32) {
    // What another holder has handed over since stays as it is. Relaxed: nothing is read that hangs
    // on it; who is woken learns from the flag what it may see.
    let woken = word.compare_exchange(WAITING, NOBODY, Ordering::Relaxed, Ordering::Relaxed);
    if woken.is_ok() {
        wake_one(word);
    }
}

/// Leaves the flag set for somebody who waits; if nobody does, clears it.
///
/// # Safety
///
/// As [`release`].
#[cold]
pub(super) unsafe fn hand_over(flag: &impl Flag, word: &AtomicU32) {
    // Release: pairs with the swap in `announce`, and with `take_back`. Relaxed: nothing is read.
    let handed = word.compare_exchange(WAITING, HANDED, Ordering::Release, Ordering::Relaxed);
    if handed.is_ok() {
        if wake_one(word) {
            return;
        }
        // Nobody slept. Whoever was about to finds HANDED; if there is no such thread, this one
        // takes the flag back, or whatever flag others handed over meanwhile: it holds it as any
        // other would.
        if !take_back(word) {
            return;
        }
    }
    // SAFETY: the caller held it, and it was not handed over; or this thread took it from the word.
    unsafe { release(flag, word) }
}
