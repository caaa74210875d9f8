//! Structures that all CPUs share and that no stopped thread can block (S92, section 5.2; GC96).
//!
//! A thread that is preempted, stopped or has exited inside an operation does not block the others.
//! A signal handler may call any operation, whatever it has interrupted, with two exceptions:
//! operations that return a `Vec` or an iterator over a hash map, which allocate, and with them
//! `Debug` of a [`List`] or a map; and the end of a [`spsc::Ring`] that it has interrupted. The
//! scope is `Machine`, within one process.
//!
//! Most structures have one version number, and change it together with every change of their
//! words, by [`dcas`](crate::dcas). So every operation has the same form. It reads the structure as
//! if no other thread changed it, then changes one or two words if the version is still the same,
//! and otherwise retries. A [`Stack`] does this in one section, [with nothing to roll
//! back](crate::docs::internals#stacks-in-arrays). A [`Queue`] has no version: each of its
//! [cells](crate::docs::internals#queues-in-arrays) has a turn, which changes together with its
//! word. Nor has a [`LinkedQueue`], whose cells have
//! [states](crate::docs::internals#queues-in-segments). A [`HashMap`], a [`RefHashMap`] and a
//! [`MultiMap`] have a version in each of their buckets, a [`ListCache`] one for each link of its
//! descriptors. A [`spsc::Ring`] has none.
//!
//! # Progress
//!
//! A [`spsc::Ring`] is wait-free. A [`Queue`], a [`LinkedQueue`], a [`HashMap`] and a
//! [`RefHashMap`] are lock-free. The others have the progress of their
//! [`Mechanism`](crate::dcas::Mechanism):
//!
//! * **OS-assisted DCAS** is obstruction-free. A thread that runs alone finishes its operation in a
//!   bounded number of steps, whatever state other threads were stopped in. Under contention, a
//!   thread may retry without bound.
//! * **k-CAS** is lock-free. When an operation retries, another operation has succeeded.
//!
//! Obstruction-freedom has two exceptions. One is [a very large number of stopped
//! threads](crate::docs::limitations#double-compare-and-swap). The other is a thread that cannot
//! run sections, because it could not be registered or was interrupted more often in a row than
//! [`set_restart_limit`](crate::set_restart_limit) allows, for example by a debugger that steps it.
//! Such a thread blocks its signals and takes a lock; while it is stopped there, the others wait.
//!
//! # Values
//!
//! The types ensure which threads may access a value:
//!
//! * Array structures hold one-word values ([`AsWord`](crate::AsWord): integers, `Box`, `Arc`,
//!   addresses). A value belongs to a thread only after the change that takes it out. What the
//!   thread read before does not count.
//! * A [`LinkedStack`], a [`LinkedQueue`] and a [`spsc::Ring`] hold values of any type that is
//!   `Send`. Only the thread that takes a value out accesses it.
//! * A [`List`], a [`HashMap`] and a [`MultiMap`] hold keys and values that are [`Plain`]. Several
//!   threads copy them out of a node at the same time, possibly while a later owner of the node
//!   writes there. The version shows which copies count.
//! * A [`RefList`] holds values that are `Send` and `Sync`, and lends a value to each holder of a
//!   guard. A [`RefHashMap`] does the same, with keys that are [`Plain`]. A [`OneVisitorList`]
//!   holds values that are `Send`, and lends a value to one visitor at a time.
//! * A [`PriorityQueue`] holds priorities that are [`Plain`], and values that are `Send`, which
//!   only the thread that takes them out accesses. A [`PageMap`] holds entries that are [`Plain`].
//! * A [`ListCache`] holds [descriptors](crate::type_stable::Descriptor), whose contents are
//!   atomic.
//! * A [`Server`] holds an object, operations and outputs that are [`Plain`]. Each operation works
//!   on a copy of its own.
//!
//! Nodes lie in type-stable memory ([`type_stable`](crate::type_stable)) and are reused at once;
//! they do not wait for readers. A list that has reached its limit looks for free nodes that other
//! CPUs hold, and waits while another thread does the same.
//!
//! A thread that exits inside an operation, by the `exit` system call, loses at most the one value
//! that it was moving; inside [`PageMap::unload`] or [`unload_subtree`](PageMap::unload_subtree),
//! the entries that it has taken out.
//!
//! Constructors map memory and are not `const`: put a structure in a static into a
//! [`Lazy`](crate::Lazy) ([example](crate::docs::porting#statics)).

mod array;
mod bounded;
mod error;
mod hash_map;
mod linked_queue;
mod linked_stack;
mod list;
mod list_cache;
mod multi_map;
mod nodes;
mod one_visitor;
mod page_map;
pub(crate) mod plain;
mod priority_queue;
mod queue;
mod ref_list;
mod server;
pub mod spsc;
mod stack;
mod values;

pub use error::Error;
#[cfg(any(test, feature = "unstable-internals"))]
pub use hash_map::Step;
pub use hash_map::{
    Different, HashMap, HashMapIntoIter, HashMapIter, HashMapRef, NotInserted, RefHashMap,
    RefHashMapIter,
};
pub use linked_queue::LinkedQueue;
pub use linked_stack::LinkedStack;
pub use list::{
    Arrangement, Ascending, CheckedOut, Checkout, GivenUp, IntoIter, Iter, List, NotReinserted,
    Refused, Removal, Unordered,
};
pub use list_cache::{CacheList, ListCache, Member, MemberInUse, Unlisting};
pub use multi_map::MultiMap;
pub use one_visitor::{OneVisitorList, Visit};
pub use page_map::{Leaf, PageMap};
pub use plain::{Plain, plain};
pub use priority_queue::{Handle, PriorityQueue};
pub use queue::Queue;
pub use ref_list::{NoMemory, Ref, RefIter, RefList};
pub use server::{Operation, Server};
pub use stack::Stack;
pub use values::Values;

use crate::distance;

/// Checks that a structure may have this capacity: at least one value, and at most as many as can
/// be counted, so that values without a size are bounded too.
fn check_capacity(capacity: usize) -> Result<(), Error> {
    match capacity {
        0 => Err(Error::ZeroCapacity),
        1..=distance::MAX => Ok(()),
        _ => Err(Error::OutOfMemory),
    }
}

/// Every sequence in this module, grouped by file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(crate) const SEQUENCES: crate::internals::Sequences =
    &[("nonblocking/stack", stack::SEQUENCES)];

#[cfg(test)]
mod tests;
