//! The dear side of the pair in which whoever clears a flag and whoever waits for it see each
//! other.
//!
//! ```text
//! holder    clear the flag; look who waits
//! waiter    announce itself; waiter_barrier; look at the flag
//! ```
//!
//! On Linux the holder's side is a store and a load, which its processor may make in the other
//! order: the waiter, before it sleeps, has a barrier made on all CPUs. A holder that has not yet
//! cleared the flag at the barrier sees the announcement when it has; of one that has, the waiter
//! sees that it is clear. Elsewhere the holder clears by an exchange.

use crate::platform;
use crate::sync::{Ordering, fence};

/// Between a waiter's announcement and its next look at the flag.
#[inline(always)]
pub(super) fn waiter_barrier() {
    if !platform::ORDERS_ALL {
        // SeqCst: pairs with the holder's exchange. If what the waiter does to the flag now comes
        // before that exchange, then so does this fence, and the load after the exchange finds the
        // announcement.
        fence(Ordering::SeqCst);
    } else if platform::can_order_all() {
        platform::barrier();
    }
}

/// Does [`waiter_barrier`] do what it should in this process? Where it does not, waiters have to
/// look again by themselves.
pub(super) fn is_available() -> bool {
    !platform::ORDERS_ALL || platform::can_order_all()
}
