//! The sleeping and waking of condition variables, over two words: a count of notifications, on
//! which threads sleep, and a count of waiters.
//!
//! A waiter announces itself under the lock that guards its condition, and sleeps only while no
//! notification has arrived since. A thread that changes the condition does so later, under the
//! same lock, and so sees the announcement.
//!
//! Between the increment of the count and the wake-up, other threads may start to wait, which this
//! notification does not concern. The kernel may wake one of them first if its real-time priority
//! is higher. A thread that is woken and finds no notification since its announcement has received
//! a wake-up meant for another, and notifies all. (If it woke only one other thread, that thread
//! might not be concerned either, and such threads could wake one another indefinitely.)
//!
//! The models in `verify/` compile this file a second time.

use crate::sync::{AtomicU32, Ordering, wake_all, wake_one};

/// Announces a waiter, which holds the lock. Returns the count of notifications, to be passed to
/// [`wait`].
pub(super) fn announce(notifications: &AtomicU32, waiters: &AtomicU32) -> u32 {
    // SeqCst: pairs with the load in `is_awaited`, for users that notify without the lock and order
    // the two themselves.
    waiters.fetch_add(1, Ordering::SeqCst);
    // Acquire: pairs with the Release in `add`. A stale value would only shorten the first sleep.
    notifications.load(Ordering::Acquire)
}

/// Sleeps until there is a notification since the announcement. Returns false if `sleep` has
/// reported a timeout first.
///
/// `sleep` gets a word and a value. It sleeps while the word holds the value, until it is woken, or
/// for no reason, and returns whether it was woken. It returns `None` on a timeout, without having
/// slept.
pub(super) fn wait(
    notifications: &AtomicU32,
    waiters: &AtomicU32,
    announced: u32,
    mut sleep: impl FnMut(&AtomicU32, u32) -> Option<bool>,
) -> bool {
    // The count is read after every sleep and before a timeout, so a notification that woke this
    // thread is never reported as a timeout.
    let notified = loop {
        // Acquire: pairs with the Release in `add`.
        if notifications.load(Ordering::Acquire) != announced {
            break true;
        }
        match sleep(notifications, announced) {
            // Acquire: pairs with the Release in `add`. This wake-up was meant for another thread.
            Some(true) if notifications.load(Ordering::Acquire) == announced => {
                add(notifications);
                wake_all(notifications);
            }
            Some(_) => {}
            None => break false,
        }
    };
    // Relaxed: a notifier that reads the old value only makes an unnecessary system call.
    waiters.fetch_sub(1, Ordering::Relaxed);
    notified
}

/// Notifies at least one waiting thread. Returns whether it woke one from its sleep.
#[inline(always)]
pub(super) fn notify_one(notifications: &AtomicU32, waiters: &AtomicU32) -> bool {
    is_awaited(waiters) && {
        add(notifications);
        wake_one(notifications)
    }
}

/// Notifies all waiting threads. Returns how many it woke from their sleep.
#[inline(always)]
pub(super) fn notify_all(notifications: &AtomicU32, waiters: &AtomicU32) -> usize {
    if !is_awaited(waiters) {
        return 0;
    }
    add(notifications);
    wake_all(notifications)
}

#[inline(always)]
fn is_awaited(waiters: &AtomicU32) -> bool {
    // SeqCst: pairs with the addition in `announce`.
    waiters.load(Ordering::SeqCst) != 0
}

#[cold]
fn add(notifications: &AtomicU32) {
    // Release: pairs with the Acquires in `announce` and `wait`.
    notifications.fetch_add(1, Ordering::Release);
}
