//! Structures that one thread shares with its own signal handlers. They use no atomic instruction,
//! and an operation of one sequence takes no more instructions than the same structure without
//! handlers.
//!
//! ```
//! use atomseq::local::{Counter, Ring, per_thread};
//! use atomseq::signal::{self, Event};
//!
//! per_thread! {
//!     static TICKS: Counter = Counter::new();
//!     static SAMPLES: Ring<[usize; 2], 256> = Ring::new();
//! }
//!
//! // May interrupt anything, even a `push` or a `drain` of the same ring.
//! fn on_tick(event: &mut Event<'_>) {
//!     TICKS.with(|ticks| ticks.increment());
//!     let sample = [event.original_pc(), event.value()];
//!     let _full = SAMPLES.with(|samples| samples.push(sample));
//! }
//!
//! # #[cfg(unix)] {
//! // SAFETY: the handler changes two structures of this module and does nothing else.
//! unsafe { signal::install(libc::SIGUSR1, on_tick)? };
//! // SAFETY: sends this thread a signal. A timer would do as well.
//! unsafe { libc::raise(libc::SIGUSR1) };
//!
//! // In the thread itself, at any time:
//! let taken = SAMPLES.with(|samples| samples.drain().count());
//! assert_eq!(taken as u64, TICKS.with(|ticks| ticks.take()));
//! # }
//! # Ok::<(), signal::Error>(())
//! ```
//!
//! Each structure is a few [`sequence!`](crate::sequence!) functions in the forms for signals,
//! `restarting` and `rolling`. This page states what all structures share; each structure's page
//! states what differs.
//!
//! # Scope
//!
//! [`SameThread`]: an operation is atomic with respect to every signal handler that interrupts this
//! thread at any instruction and does any operation on the same structure, and to handlers that
//! interrupt that handler. This holds for handlers installed with [`signal`](crate::signal): before
//! such a handler runs, its delivery restarts or completes the interrupted sequence. A structure is
//! neither [`Send`] nor [`Sync`], so no other thread can reach it.
//!
//! A handler of an ordinary signal need not check
//! [`interrupted()`](crate::signal::Event::interrupted) as long as the thread's memory does not
//! fault. Handlers of faults (`SIGSEGV`, `SIGBUS`, `SIGFPE`, `SIGILL`, `SIGTRAP`, `SIGSYS`) must:
//! in [`Inside`](crate::signal::Interrupted::Inside) they leave these structures alone.
//!
//! Standard signals coalesce: while one is pending on a thread, the kernel discards further ones of
//! its number. A handler may therefore run less often than its signal was sent.
//!
//! **Data that several threads and their handlers share belongs in [`percpu`](crate::percpu).** Its
//! structures have the same names and methods, are as safe in signal handlers, and cost little
//! more.
//!
//! # Progress
//!
//! An interrupted operation restarts its current sequence, or the delivery first runs that sequence
//! to its end. No operation waits. Every operation therefore ends unless signals arrive faster than
//! the operation takes, which is nanoseconds.
//!
//! # Cost
//!
//! No atomic instruction and no system call. All operations except some of [`Ring`] and [`Map`] are
//! one sequence, and have no instruction for the sake of handlers. An operation of several
//! sequences checks in each whether a handler has interfered: a load, a comparison and a branch.
//! The handler's [delivery](crate::signal) bears the cost of an interruption.
//!
//! Where sequences are unavailable (with `--cfg atomseq_portable`, and on systems other than
//! Linux), each sequence costs two system calls that block signals around it.
//!
//! # Memory, allocation
//!
//! A structure has its capacity in its type and stores its elements inline. Nothing allocates.
//! `new` is `const`, so a structure can be a [`per_thread!`] static. It may be moved like any other
//! value while it is not borrowed.
//!
//! # Errors and panics
//!
//! What does not fit is returned to the caller: `push` returns the element, and [`Map`] returns the
//! value in [`Full`]. An invalid capacity does not compile. Nothing panics. Dropping a structure
//! drops each of its elements once.

mod counter;
mod drain;
mod map;
pub(crate) mod per_thread;
mod points;
mod queue;
mod ring;
mod scope;
mod stack;
mod word;

pub use crate::scope::SameThread;
pub use counter::Counter;
pub use drain::Drain;
pub use map::{Full, Integer, Iter, Map};
pub use per_thread::PerThread;
pub use queue::Queue;
pub use ring::Ring;
pub use scope::Interruptible;
pub use stack::Stack;

#[doc(inline)]
pub use crate::__per_thread as per_thread;

/// Every sequence in this module, grouped by file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(crate) const SEQUENCES: crate::internals::Sequences = &[
    ("local/counter", counter::SEQUENCES),
    ("local/map", map::SEQUENCES),
    ("local/queue", queue::SEQUENCES),
    ("local/ring", ring::SEQUENCES),
    ("local/stack", stack::SEQUENCES),
];
