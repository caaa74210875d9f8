//! Type-stable memory (GC96 2): memory whose type never changes while anybody may still look at it.
//!
//! A [`Pool`] keeps descriptors of one type. What was freed stays an instance of its type, so an
//! old address leads to an instance of the type at any time, and a version number tells whether it
//! is the one that was meant. That is what algorithms without locks need of memory: nobody has to
//! find out first whether anybody else is still reading.
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
//!     // Somebody else still has the reference when the session ends, or does not yet know.
//!     scope.spawn(move || reference.read(|session| session.user.load(Ordering::Relaxed)));
//!     drop(session);
//! });
//! assert!(!reference.is_current());
//! # Ok::<(), atomseq::type_stable::Error>(())
//! ```
//!
//! # Why it is sound
//!
//! Rust's references promise more than addresses do: that what they refer to is alive, and does not
//! change where it must not. A pool keeps both promises for every descriptor at any time. Its
//! memory is zeroed, and zeros are an instance ([`Descriptor`]); it stays mapped as long as the
//! pool lives, of which all references borrow; nobody ever gets `&mut T`, so whatever changes is
//! atomic. Who *owns* a descriptor is thus a matter of what its contents mean, not of memory
//! safety. Pages that go back to the system keep their addresses, and read as zeros from then on:
//! an instance again.
//!
//! So t_stable does not guard against crashes, as it would if pages were unmapped. It guards what a
//! reader may count on: a descriptor that was free for less still has its contents.
//!
//! # Signals, allocators, forks
//!
//! Every operation may be called from a signal handler, whatever it has interrupted. After a pool
//! was made, it takes memory from the operating system only. A child of a fork has a copy of each
//! pool.

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
pub use cache::{Cache, Candidate, Gone, InUse, Loaded, WriteBack};
pub use descriptor::{Descriptor, descriptor};
pub use error::Error;
pub use pool::{Allocated, Options, Pool};
pub use reference::Reference;

/// The time, for pages and descriptors. `None`: the system refuses to tell.
fn now() -> Option<moment::Moment> {
    crate::clock::now().map(moment::Moment::after)
}

#[cfg(test)]
mod tests;
