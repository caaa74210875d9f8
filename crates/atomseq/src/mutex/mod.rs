//! Locks, and the test-and-set that they are made of, by every mechanism there is for it.
//!
//! B91 compares mechanisms for one operation: to set a word and learn whether it was set before. Each is a type
//! here that implements [`TestAndSet`] and says its [scope](crate::scope). The locks take a mechanism as a
//! parameter.

mod bias;
mod condvar;
mod counted;
mod deadline;
mod home;
mod mechanism;
mod notification;
mod parking;
mod permits;
mod relinquish;
mod semaphore;
mod spin;
mod test_and_set;

use crate::local::Interruptible;

pub use condvar::{Condvar, WaitTimeoutResult};
pub use counted::{Counted, Counts, HasCounts, counts};
pub use mechanism::{Interlocked, Masked, OnCpu, Rehoming, Restarting, Rolling};
pub use relinquish::RawMutex;
pub use semaphore::{Permit, Semaphore, TooManyPermits};
pub use spin::RawSpin;
pub use test_and_set::{Interventions, TestAndSet};

/// A lock that is tried again and again, with the data it protects.
pub type SpinLock<T, M = Interlocked> = lock_api::Mutex<RawSpin<M>, T>;

/// A lock whose waiters relinquish the processor, with the data it protects.
pub type Mutex<T, M = Interlocked> = lock_api::Mutex<RawMutex<M>, T>;

/// A lock that the threads of one CPU take without an atomic instruction, as long as that CPU uses it most, with the data it
/// protects. [`Rehoming`] tells how it is decided which CPU that is.
pub type Biased<T> = lock_api::Mutex<RawBiased, T>;

/// What is behind [`Biased`].
pub type RawBiased = RawMutex<Rehoming>;

/// A lock as a [`per_thread!`](crate::local::per_thread!) static, which the thread shares with its handlers.
// SAFETY: every mechanism is atomic against the handlers of the thread that it runs on, so of the thread and a handler that
// comes between any two of its instructions, one at most has a guard. What goes from one to the other through the
// guard may be used by either from then on, as if they were threads: it is `Send`.
unsafe impl<M: TestAndSet, T: Send> Interruptible for lock_api::Mutex<RawSpin<M>, T> {}

/// A lock as a [`per_thread!`](crate::local::per_thread!) static, which the thread shares with its handlers.
// SAFETY: as above; handlers that wait would wait for ever, and harm nothing.
unsafe impl<M: TestAndSet, T: Send> Interruptible for lock_api::Mutex<RawMutex<M>, T> {}

/// Every sequence here by its file, for the checkers in `verify/`.
#[doc(hidden)]
pub const SEQUENCES: &[(&str, &[&crate::sequence::model::Program])] = &[
    ("mutex/home", home::SEQUENCES),
    ("mutex/signals", mechanism::SEQUENCES),
];
