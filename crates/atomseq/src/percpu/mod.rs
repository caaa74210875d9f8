//! Structures with one part a CPU (scope `SameCpu`): no atomic instruction on the fast path.
//!
//! [`Area`] is the memory, [`Held`] a slot whose gate is closed; every structure is a handful of
//! [`sequence!`](crate::sequence!)s over an area. An operation tries its sequence on this CPU's slot
//! first; where that cannot be (see [`status`](crate::status())), it closes the gate and runs the
//! same steps under it.

mod area;
mod batch;
mod counter;
mod error;
mod gate;
mod histogram;
mod list;
mod lock;
mod memory;
mod pool;
mod queue;
mod remote;
mod ring;
mod stack;

pub use area::{Area, Slots};
pub use batch::Batch;
pub use counter::Counter;
pub use error::Error;
pub use gate::Held;
pub use histogram::{Histogram, Snapshot};
pub use list::{Link, List, Node, Owner, RawNode};
pub use pool::{Lease, Pool, Source};
pub use queue::Queue;
pub use remote::Drain;
pub use ring::Ring;
pub use stack::Stack;

/// Every sequence here by its file, for the checkers in `verify/`.
#[doc(hidden)]
pub const SEQUENCES: &[(&str, &[&crate::sequence::model::Program])] = &[
    ("counter", counter::SEQUENCES),
    ("histogram", histogram::SEQUENCES),
    ("list", list::SEQUENCES),
    ("queue", queue::SEQUENCES),
    ("ring", ring::SEQUENCES),
    ("stack", stack::SEQUENCES),
];
