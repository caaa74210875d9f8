//! Structures that all CPUs share and nobody can block (S92 5.2, GC96).
//!
//! A thread that is preempted, stopped or ended inside an operation keeps no other waiting, and a
//! signal handler may call any operation, whatever it has interrupted, but for those that return a
//! `Vec`, and the end of a [`spsc::Ring`] that it has interrupted. Scope `Machine`, within one
//! process.
//!
//! Each structure has one version number and makes every change together with it, by
//! [`dcas`](crate::dcas): so there is one way to write an operation. It looks at the structure as
//! if it were alone; it changes one or two words, if the version is still what it was; else it
//! begins again. A [`Stack`] does that in one section, [without anything to
//! undo](crate::docs::internals#stacks-in-arrays). A [`Queue`] has no version: each of its
//! [cells](crate::docs::internals#queues-in-arrays) has a turn, which changes with its word.
//!
//! # Progress
//!
//! A [`spsc::Ring`] is wait-free, a [`Queue`] lock-free. The others have the progress of the
//! [`Mechanism`](crate::dcas::Mechanism): OS-assisted, obstruction-free: a thread that runs alone
//! ends its operation in a bounded number of steps, whatever state the others were stopped in;
//! under contention someone may have to begin again without bound. (One exception is [very many
//! stopped threads](crate::docs::limitations#double-compare-and-swap). The other is a thread that
//! cannot run sections, because it could not be registered or was interrupted more often in a row
//! than [`set_restart_limit`](crate::set_restart_limit) allows, by a debugger that steps it, say:
//! it locks, with its signals blocked, and while it is stopped there the others wait.) By k-CAS,
//! lock-free: whenever an operation begins again, another one has succeeded.
//!
//! # Values
//!
//! What several threads may see at once is a matter of types:
//!
//! * Array structures hold one-word values ([`AsWord`](crate::AsWord): integers, `Box`, `Arc`,
//!   addresses). A value is somebody's own only after the exchange that takes it out; what was read
//!   before counts for nothing.
//! * A [`LinkedStack`] holds anything that may go from thread to thread: a value is seen by whoever
//!   took its node off, and by nobody before. A [`spsc::Ring`](spsc) likewise.
//! * A [`List`] holds keys and values that are [`Plain`]: several threads copy them out of a node
//!   at the same time, perhaps while a later owner of the node's memory is writing there, and the
//!   version tells which copies count.
//! * A [`RefList`] holds anything that threads may share, and lends it to whoever has a guard; a
//!   [`OneVisitorList`] anything that may go from thread to thread, and lends it to one visitor at
//!   a time.
//!
//! Nodes lie in type-stable memory ([`type_stable`](crate::type_stable)), and are used again at
//! once: nothing waits for readers. A list that has reached its limit looks for nodes that other
//! CPUs keep, and waits while another thread does that.
//!
//! A thread that is ended inside an operation (by its own `exit` system call) loses the one value
//! that was in its hands, at most.

mod array;
mod bounded;
mod error;
mod linked_stack;
mod list;
mod nodes;
mod one_visitor;
pub(crate) mod plain;
mod queue;
mod ref_list;
pub mod spsc;
mod stack;
mod values;

pub use error::Error;
pub use linked_stack::LinkedStack;
pub use list::{
    Arrangement, Ascending, CheckedOut, Checkout, GivenUp, IntoIter, Iter, List, Refused, Unordered,
};
pub use one_visitor::{OneVisitorList, Visit};
pub use plain::{Plain, plain};
pub use queue::Queue;
pub use ref_list::{NoMemory, Ref, RefIter, RefList};
pub use stack::Stack;
pub use values::Values;

use crate::distance;

/// A structure that holds nothing is none; and there is memory for no more values than can be
/// counted, unless they have no size.
fn check_capacity(capacity: usize) -> Result<(), Error> {
    match capacity {
        0 => Err(Error::ZeroCapacity),
        1..=distance::MAX => Ok(()),
        _ => Err(Error::OutOfMemory),
    }
}

/// Every sequence here by its file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(crate) const SEQUENCES: crate::internals::Sequences =
    &[("nonblocking/stack", stack::SEQUENCES)];

#[cfg(test)]
mod tests;
