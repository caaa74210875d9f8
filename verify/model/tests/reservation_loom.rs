//! B91's software reservation under loom: every value that a relaxed load may return, so that a
//! fence which is missing is found out.

#[path = "protocols/loom.rs"]
#[allow(dead_code, unused_imports, reason = "what other models need")]
mod explore;
#[path = "../../../crates/atomseq-papers/src/reservation/lamport.rs"]
mod lamport;
#[path = "reservation/models.rs"]
mod models;
#[path = "reservation/orderings.rs"]
mod orderings;

/// What the library's code and the models are built on.
mod sync {
    pub use super::explore::{
        AtomicU32, Ordering, Plain, Size, holds, misses as found_out, races, thread,
    };
    pub use loom::sync::atomic::AtomicBool;
    pub use loom::thread::yield_now as relinquish;

    /// What loom says of two threads inside.
    pub const AT_ONCE: &str = "Causality violation";

    /// With three threads that wait for each other, loom's scheduler leaves one out for ever.
    pub const MORE_THAN_TWO: bool = false;

    /// How much there is to try with two threads.
    pub const MAX: Size = Size::Small;

    pub fn fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}
