//! Type-stable memory: memory that keeps its type while any thread may still read it (GC96, section
//! 2).
//!
//! A [`Pool`] allocates descriptors of one type. A freed descriptor remains an instance of that
//! type, so an old address always leads to a valid instance. A version number reports whether it is
//! still the intended allocation. Non-blocking algorithms can therefore free memory without first
//! finding out whether another thread still reads it.
//!
//! ```
//! use atomseq::type_stable::{Pool, descriptor};
//! use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
//!
//! descriptor! {
//!     struct Session {
//!         user: AtomicU64,
//!         requests: AtomicUsize,
//!     }
//! }
//!
//! let sessions = Pool::<Session>::new();
//! let session = sessions.allocate()?;
//! session.user.store(1001, Ordering::Relaxed);
//! session.requests.store(0, Ordering::Relaxed);
//! let reference = session.reference();
//!
//! std::thread::scope(|scope| {
//!     // Another thread still reads through the reference while the session ends.
//!     scope.spawn(move || reference.read(|session| session.user.load(Ordering::Relaxed)));
//!     drop(session);
//! });
//! assert!(!reference.is_current());
//! # Ok::<(), atomseq::type_stable::Error>(())
//! ```
//!
//! # Soundness
//!
//! A Rust reference promises more than an address: its target is alive, and only atomics in it
//! change. A pool keeps both promises for every descriptor, allocated or free. Its memory starts
//! zeroed, and zeros are a valid instance ([`Descriptor`]). The memory stays mapped while the pool
//! lives, and every reference borrows from the pool. The pool never hands out `&mut T`, so
//! everything that changes is atomic. Ownership of a descriptor therefore concerns only the meaning
//! of its contents, not memory safety. A page given back to the system keeps its addresses and
//! reads as zeros, which are again valid instances.
//!
//! The time in [`stable_for`](Options::stable_for) (GC96's t_stable) is not needed for memory
//! safety. It says how long the contents of a freed descriptor remain: until that time has passed
//! and [`trim`](Pool::trim) returns the page. Then it reads as zeros. A new owner may overwrite
//! them at any time.
//!
//! # Signals, allocators, forks
//!
//! Every operation may be called in a signal handler, at any point of the interrupted code. Once a
//! pool exists, it takes memory only from the operating system, never from the global allocator. A
//! child process has its own copy of each pool after a fork.

mod audit;
mod cache;
mod chunk;
pub(crate) mod descriptor;
mod error;
mod free;
mod hints;
mod layout;
mod moment;
mod page;
mod pool;
mod reference;
mod seen;
mod shared;
mod trim;
mod unclaimed;
mod vacancies;

pub use audit::{Audit, Unclaimed};
pub(crate) use cache::TooManyUses;
pub use cache::{Cache, Candidate, Gone, InUse, Loaded, WriteBack};
pub use descriptor::{Descriptor, descriptor};
pub use error::Error;
pub use pool::{Allocated, Options, Pool};
pub use reference::Reference;

/// Returns the current time for page and descriptor ages, or `None` if the system does not report
/// it.
fn now() -> Option<moment::Moment> {
    crate::clock::now().map(moment::Moment::after)
}

#[cfg(test)]
mod tests;
