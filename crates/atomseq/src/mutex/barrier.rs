//! The expensive side of the barrier pair by which a thread that clears a flag and a thread that
//! waits for it see each other.
//!
//! ```text
//! holder    clear the flag; read the announcement
//! waiter    announce; waiter_barrier; read the flag
//! ```
//!
//! On Linux the holder's side is a store and a load, which its processor may reorder. The waiter
//! therefore executes a barrier on all CPUs (`membarrier`) before it sleeps. If the holder has not
//! cleared the flag at the barrier, its later load sees the announcement. If it has, the waiter
//! sees that the flag is clear. On other systems the holder clears the flag by an exchange.

use crate::platform;
use crate::sync::{Ordering, fence};

/// Executed by a waiter between its announcement and its next read of the flag.
#[inline(always)]
pub(super) fn waiter_barrier() {
    if !platform::ORDERS_ALL {
        // SeqCst: pairs with the holder's exchange. If the waiter's next operation on the flag
        // precedes that exchange, so does this fence, and the holder's load after the exchange sees
        // the announcement.
        fence(Ordering::SeqCst);
    } else if platform::can_order_all() {
        platform::barrier();
    }
}

/// Returns whether [`waiter_barrier`] is effective in this process. If not, waiters have to poll.
pub(super) fn is_available() -> bool {
    !platform::ORDERS_ALL || platform::can_order_all()
}
