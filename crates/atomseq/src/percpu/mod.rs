//! Structures with one part a CPU: no atomic instruction on the fast path.
//!
//! [`Area`] is the memory, [`GateGuard`] a slot whose gate is closed; every structure is a handful
//! of [`sequence!`](crate::sequence!)s over an area. What follows holds for all of them; each
//! structure's own page says what is different there.
//!
//! # Scope
//!
//! `SameCpu`: an operation is atomic against every thread and signal handler on the CPU it runs on.
//! Operations on other CPUs' parts (`steal`, `drain`) close those parts' gates first. A thread may
//! be moved to another CPU between two operations, never within one.
//!
//! # Progress
//!
//! The fast path makes at most one attempt and as many restarts as [the
//! limit](crate::set_restart_limit) says. The slow path of [`Counter`] and [`Histogram`] is one
//! atomic addition, so both are wait-free. That of the others closes the gate of this CPU, so it
//! waits while another thread holds that gate: a thief, a drain, or another slow path. None of
//! their operations runs code of yours while it holds a gate: `steal` and `drain` convert what they
//! took ([`AsWord::from_word`](crate::AsWord::from_word), [`Owner::from_node`]) when the gate is
//! open again.
//!
//! # Cost
//!
//! | path | atomic instructions | system calls | taken |
//! |---|---|---|---|
//! | fast | 0 | 0 | [almost always](crate::status()) |
//! | an empty or full part of a `Pool` | 2 | 0 | once in half the capacity, at most 31, where objects change CPU |
//! | slow, `Counter` and `Histogram` | 1 | 0 | sections are off; too many restarts |
//! | slow, the others | 4 | 2, or 3 with a fence | the same; gates are off; a gate is held |
//! | `steal` of one element, `drain` of up to sixteen | 4 | 2, or 3 with a fence | a part looks occupied |
//!
//! The first operation of a thread that atomseq itself registers takes the slow path.
//! [`docs::performance`](crate::docs::performance) has more.
//!
//! `steal` and `drain` are for rare use: for what is left over, not as a channel between CPUs. Each
//! costs system calls and closes a gate, and whoever finds that gate closed meanwhile goes to the
//! slow path and closes it in turn. So under heavy load a stream of elements from one CPU to
//! another comes to tens of microseconds an element, as many as 90 measured with a [`Ring`] of
//! sixteen places. Use a [`nonblocking::Queue`](crate::nonblocking::Queue) for that.
//!
//! # Memory, allocation, signals
//!
//! A structure's memory comes from the operating system when it is made, for each CPU that the
//! kernel may ever use. After that no operation calls the global allocator, takes a lock of the
//! standard library or touches a thread-local that is set up on first use, and every operation may
//! be called from a signal handler that interrupted another one on the same structure. (A [`Vec`]
//! that is passed in, a [`Source`] and the elements' own destructors do what they do.)
//!
//! # Errors and panics
//!
//! `new` panics with the sentence of the [`Error`] that `try_new` returns. Both fail inside
//! atomseq's own start-up, in a handler of `SIGSYS` or an allocator that start-up calls: how many
//! CPUs there can be is not known yet. Methods that take a CPU's number panic if there is no such
//! CPU; numbers below [`Area::cpus`] are valid, those of absent CPUs included. Dropped, a structure
//! drops what it holds, once; if a destructor panics, the others run while that unwinds, and a
//! second panic aborts the process.

mod area;
mod baseline;
mod batch;
mod counter;
mod depot;
mod error;
pub(crate) mod gate;
mod histogram;
mod list;
pub(crate) mod lock;
pub(crate) mod memory;
mod pool;
mod queue;
mod remote;
mod ring;
mod stack;
#[cfg(test)]
mod tests;

pub(crate) use area::started;
pub use area::{Area, Slots};
pub use batch::Batch;
pub use counter::Counter;
pub use error::Error;
pub use gate::GateGuard;
pub use histogram::{Histogram, Snapshot};
pub use list::{Link, List, Node, Owner, RawNode};
pub use pool::{Lease, Pool, PoolDrain, Source};
pub use queue::Queue;
pub use remote::Drain;
pub use ring::Ring;
pub use stack::Stack;

/// Every sequence here by its file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(crate) const SEQUENCES: crate::internals::Sequences = &[
    ("counter", counter::SEQUENCES),
    ("histogram", histogram::SEQUENCES),
    ("list", list::SEQUENCES),
    ("queue", queue::SEQUENCES),
    ("ring", ring::SEQUENCES),
    ("stack", stack::SEQUENCES),
];
