//! Per-CPU structures: one part per CPU, and no atomic instruction on the fast path.
//!
//! [`Area`] is the memory of a structure: one slot per CPU. [`GateGuard`] is a slot that a thread
//! has closed for exclusive access. Each structure is a few [`sequence!`](crate::sequence!)
//! functions over an area. This page states what all of them share; each structure's page states
//! what differs.
//!
//! # Scope
//!
//! `SameCpu`: an operation is atomic with respect to every thread and signal handler on the CPU it
//! runs on. An operation on another CPU's part (`steal`, `drain`) closes that part's gate first.
//! The kernel may migrate a thread between two operations; a migration during an operation restarts
//! it on the new CPU.
//!
//! # Progress
//!
//! The fast path makes one attempt, and retries it after an abort at most as often as [the restart
//! limit](crate::set_restart_limit) allows. The slow path of [`Counter`], [`Count`], [`Gauge`] and
//! [`Histogram`] is one atomic addition, so an addition to these is wait-free. (The first recording
//! of a [`Histogram`] maps its memory, as [`prepare`](Histogram::prepare) does, and may wait for
//! other threads that map some, fork or [start atomseq](crate::status()).) The slow path of every
//! other structure closes the gate of this CPU. It blocks while another thread holds that gate for
//! a steal, a drain or a slow path of its own, and a few milliseconds at most while another thread
//! forks.
//!
//! No operation calls user code while it holds a gate: `steal` and `drain` open the gate before
//! they convert elements with [`AsWord::from_word`](crate::AsWord::from_word) or
//! [`Owner::from_node`].
//!
//! # Cost
//!
//! | path | atomic instructions | system calls | when |
//! |---|---|---|---|
//! | fast | 0 | 0 | [almost always](crate::status()) |
//! | empty or full part of a `Pool` | 2 | 0 | once per batch of objects that change CPU |
//! | slow, `Counter`, `Count`, `Gauge`, `Histogram` | 1, with a sum 2 | 0 | sections unavailable; [restart limit](crate::set_restart_limit) reached |
//! | slow, the others | 4 | 2, or 3 with a fence | the same; gates unavailable; gate held |
//! | `steal` of one element | 4 | 2, or 3 with a fence | the part seems to hold elements |
//! | `drain` of up to sixteen | 4 | 2, or 3 with a fence | the part seems to hold elements |
//!
//! A batch of a `Pool` is half its capacity plus one, at most 31 objects. *Sections* are the
//! kernel's restartable sequences (rseq), in which the fast paths run. The *fence* is the system
//! call `membarrier`, which aborts the sections that run on a CPU. [`status`](crate::status())
//! reports whether sections, and gates, are available in this process.
//!
//! The first operation of a thread that atomseq itself registers with the kernel takes the slow
//! path. [`docs::performance`](crate::docs::performance) has measurements.
//!
//! A consumer that drains now and then, every millisecond or more, pays well under a microsecond
//! an element, because a gate is closed for up to sixteen. Choose a capacity that holds what one
//! CPU pushes between two drains, plus several time slices. Do not poll `steal` or `drain` in a
//! loop: each call that finds an element closes a gate, and producers then take the slow path. For
//! such a stream use [`nonblocking::Queue`](crate::nonblocking::Queue); what does not fit a word is
//! boxed.
//!
//! # Memory, allocation, signals
//!
//! A constructor takes memory from the operating system, for every CPU that the kernel may ever
//! bring online; the first operation does so where the constructor is `const`. After that no
//! operation calls the global allocator, takes a lock of the standard library, or touches a
//! thread-local that is initialized on first use. Every operation may be called from a signal
//! handler, including one that interrupted an operation on the same structure. These guarantees do
//! not cover a [`Vec`] that the caller passes in, a [`Source`], or the elements' destructors.
//!
//! [`Counter`], [`Counters`], [`Gauge`] and [`Histogram`] have `const` constructors, for statics.
//! If handlers use one, call its `prepare` before they are installed. The other constructors map
//! memory and are not `const`: each operation would have to test whether there is memory. (For a
//! get and put of a [`Pool`] on x86-64, 3.6 ns were measured with these tests instead of 3.25, the
//! shortest of each 101 runs.) Put such a structure into a [`Lazy`](crate::Lazy), so that only a
//! static pays for the test. If handlers use it, call [`Lazy::force`](crate::Lazy::force) before
//! they are installed. In the type of a static [`Pool`], the source is a function pointer:
//!
//! ```
//! use atomseq::Lazy;
//! use atomseq::percpu::{Counter, Pool};
//!
//! type Buffer = Box<[u8; 4096]>;
//! static BUFFERS: Lazy<Pool<Buffer, fn() -> Buffer>> =
//!     Lazy::new(|| Pool::with_capacity_per_cpu(64, || Box::new([0; 4096])));
//! static TICKS: Counter = Counter::new();
//!
//! fn in_a_handler() {
//!     TICKS.increment();
//! }
//!
//! TICKS.prepare().unwrap(); // before handlers are installed
//! # in_a_handler();
//! BUFFERS.lease().unwrap()[0] = 1;
//! # assert_eq!(TICKS.sum(), 1);
//! ```
//!
//! # Errors and panics
//!
//! A constructor without `try_` panics with the message of the [`Error`] that its `try_` form
//! returns; one that is `const` fails only for invalid arguments, with a message of its own. The
//! others fail when they are called from within atomseq's own start-up: in a handler of `SIGSYS`,
//! or in an allocator that start-up calls. The number of possible CPUs is not known there yet.
//!
//! A method that takes a CPU number panics if there is no such CPU. Every number below
//! [`Area::cpus`] is valid, including those of CPUs that are absent.
//!
//! Dropping a structure drops each of its elements once. If a destructor panics, the others still
//! run during the unwinding; a second panic aborts the process.

mod area;
mod baseline;
mod batch;
mod counter;
mod counters;
mod depot;
mod error;
pub(crate) mod gate;
mod gauge;
mod histogram;
mod lazy;
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
#[cfg(test)]
pub(crate) use area::while_another_thread_maps;
pub use area::{Area, Slots};
pub use batch::Batch;
pub use counter::Counter;
pub use counters::{Count, Counters};
pub use error::Error;
pub use gate::GateGuard;
pub use gauge::Gauge;
pub use histogram::{Histogram, Quantile, Snapshot};
pub(crate) use lazy::Lazy;
pub use list::{Link, List, Node, Owner, RawNode};
pub use pool::{Lease, OwnedLease, Pool, PoolDrain, Source};
pub use queue::Queue;
pub use remote::Drain;
pub use ring::Ring;
pub use stack::Stack;

/// Every sequence in this module, grouped by file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(crate) const SEQUENCES: crate::internals::Sequences = &[
    ("counter", counter::SEQUENCES),
    ("counters", counters::SEQUENCES),
    ("histogram", histogram::SEQUENCES),
    ("list", list::SEQUENCES),
    ("queue", queue::SEQUENCES),
    ("ring", ring::SEQUENCES),
    ("stack", stack::SEQUENCES),
];
