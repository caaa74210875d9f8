//! The clock of a history: each lane counts its calls that have returned, and looks at all counts
//! before a call.
//!
//! One shared counter that every call takes a number from would be simpler, and would hide errors.
//! It is a locked instruction before and after each operation: stores that a structure leaves in
//! the processor's store buffer at the end of one operation would be out before the next begins,
//! although nothing in the structure sees to that: two lanes that each store to one word and then
//! look at the other's would never both be too early. And all calls would meet at one line, most of
//! them one after the other.
//!
//! Here a return is one store, and what it follows in its lane comes before it anyway; a beginning
//! is loads. On x86-64 both are plain moves. Whoever *sees* that a call had returned could have
//! been told so by any program through memory, and then has to see its effect: that is the order
//! which linearizability asks for, and no more is recorded. A return seen late only makes two calls
//! concurrent that were not: the checker may then miss an error, but never reports one that is
//! none.
//!
//! So the order is not one of real time, and not one of intervals either: two lanes may see the
//! returns of two others in different orders, where the processor lets them. The checker takes any
//! order.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::history::{LANES, Seen};

/// The counts of one history.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Clock([AtomicU32; LANES]);

impl Clock {
    /// What has returned, before a call.
    #[inline]
    pub fn seen(&self) -> Seen {
        // Acquire: pairs with the release in `returned`: whoever sees that a call has returned sees
        // its effect, and the call that comes next looks at nothing earlier than this.
        std::array::from_fn(|lane| self.0[lane].load(Ordering::Acquire))
    }

    /// Says that a lane's call has returned, so many in all. Only the lane itself says so.
    #[inline]
    pub fn returned(&self, lane: usize, calls: usize) {
        // Release: pairs with the acquire in `seen`.
        self.0[lane].store(calls as u32, Ordering::Release);
    }

    /// How many calls of the lane have returned.
    pub fn count(&self, lane: usize) -> usize {
        // Acquire: as in `seen`.
        self.0[lane].load(Ordering::Acquire) as usize
    }
}
