//! Threads that sleep until they are notified: a word that counts notifications, which is what they
//! sleep on, and a word that counts who waits.
//!
//! A thread that is to wait announces itself under the lock that guards what it waits for, and
//! sleeps only while no notification has come since. Whoever changed what it waits for did so under
//! the lock, later, and so knows of the announcement.
//!
//! Between the addition to the word and the wake-up others may begin to wait, which have not been
//! notified; the kernel may wake one of them first, if its real-time priority is higher. A thread
//! that is woken and finds no notification since its announcement has taken another's wake-up, so
//! it notifies all. (If it woke one in its place, that one might not have been notified either, and
//! where nobody has been, such threads would wake one another indefinitely.)
//!
//! Models in `verify/` compile this file a second time.

use crate::sync::{AtomicU32, Ordering, wake_all, wake_one};

/// Announces a waiter, which holds the lock; returns what `sleep` wants.
pub(super) fn announce(notifications: &AtomicU32, waiters: &AtomicU32) -> u32 {
    // SeqCst: pairs with the load in `is_awaited`, for those who do without the lock and order the
    // two themselves.
    waiters.fetch_add(1, Ordering::SeqCst);
    // Acquire: pairs with the Release in `add`. An older value than the lock allows would only be a
    // short sleep.
    notifications.load(Ordering::Acquire)
}

/// Sleeps until there is a notification since the announcement; false if `sleep` said first that
/// time is up.
///
/// `sleep` sleeps while the word that it is given holds the value that it is given, or until it was
/// woken, or for no reason, and returns whether it was woken; or returns `None` without having
/// slept.
pub(super) fn wait(
    notifications: &AtomicU32,
    waiters: &AtomicU32,
    announced: u32,
    mut sleep: impl FnMut(&AtomicU32, u32) -> Option<bool>,
) -> bool {
    // Whatever woke this thread, it looks here before it gives up: a notification that woke it is
    // never taken for time that was up.
    let notified = loop {
        // Acquire: pairs with the Release in `add`.
        if notifications.load(Ordering::Acquire) != announced {
            break true;
        }
        match sleep(notifications, announced) {
            // Acquire: pairs with the Release in `add`.
            Some(true) if notifications.load(Ordering::Acquire) == announced => {
                add(notifications);
                wake_all(notifications);
            }
            Some(_) => {}
            None => break false,
        }
    };
    // Relaxed: until it is seen, a notification makes a system call too many.
    waiters.fetch_sub(1, Ordering::Relaxed);
    notified
}

/// Notifies one of those who wait, or more.
#[inline(always)]
pub(super) fn notify_one(notifications: &AtomicU32, waiters: &AtomicU32) {
    if is_awaited(waiters) {
        add(notifications);
        wake_one(notifications);
    }
}

/// Notifies all of them.
#[inline(always)]
pub(super) fn notify_all(notifications: &AtomicU32, waiters: &AtomicU32) {
    if is_awaited(waiters) {
        add(notifications);
        wake_all(notifications);
    }
}

#[inline(always)]
fn is_awaited(waiters: &AtomicU32) -> bool {
    // SeqCst: pairs with the addition in `announce`.
    waiters.load(Ordering::SeqCst) != 0
}

#[cold]
fn add(notifications: &AtomicU32) {
    // Release: pairs with the Acquire in `wait`.
    notifications.fetch_add(1, Ordering::Release);
}
