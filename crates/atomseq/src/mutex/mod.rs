//! Locks, and the test-and-set that they are made of, by every mechanism there is for it.
//!
//! B91 compares mechanisms for one operation: to set a word and learn whether it was set before. Each is a type
//! here that implements [`TestAndSet`] and says its [scope](crate::scope). The locks take a mechanism as a
//! parameter.

mod mechanism;
mod relinquish;
mod spin;
mod test_and_set;

pub use mechanism::{Interlocked, Masked, Restarting, Rolling};
pub use relinquish::RawMutex;
pub use spin::RawSpin;
pub use test_and_set::{Interventions, TestAndSet};

/// A lock that is tried again and again, with the data it protects.
pub type SpinLock<T, M = Interlocked> = lock_api::Mutex<RawSpin<M>, T>;

/// A lock whose waiters relinquish the processor, with the data it protects.
pub type Mutex<T, M = Interlocked> = lock_api::Mutex<RawMutex<M>, T>;

/// Every sequence here by its file, for the checkers in `verify/`.
#[doc(hidden)]
pub const SEQUENCES: &[(&str, &[&crate::sequence::model::Program])] =
    &[("mutex/signals", mechanism::SEQUENCES)];
