//! B91's software reservation under shuttle, where memory is sequentially consistent, as it is
//! among the threads of one CPU: many orders of steps, and fences do nothing.

#[path = "protocols/shuttle.rs"]
#[allow(dead_code, unused_imports, reason = "what other models need")]
mod explore;
#[path = "../../../crates/atomseq-papers/src/reservation/lamport.rs"]
mod lamport;
#[path = "reservation/models.rs"]
mod models;

/// The modules on which the library's code and the models are built.
mod sync {
    pub use super::explore::{AtomicU32, Ordering, Plain, Size, fails as found_out, holds, thread};
    pub use shuttle::sync::atomic::AtomicBool;
    pub use shuttle::thread::yield_now as relinquish;

    /// The failure caused by two threads inside.
    pub const AT_ONCE: &str = "additions lost";

    pub const MORE_THAN_TWO: bool = true;

    /// Not every order of steps: a waiter may look again without end.
    pub const MAX: Size = Size::Large;

    pub fn fence() {}
}
