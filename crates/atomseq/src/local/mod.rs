//! Structures that one thread shares with its own signal handlers: no atomic instruction, and not
//! one instruction more than without handlers.
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
//! // Whatever this interrupts, a `push` or a `drain` of the same ring included:
//! fn on_tick(event: &mut Event<'_>) {
//!     TICKS.with(|ticks| ticks.increment());
//!     let sample = [event.original_pc(), event.value()];
//!     let _full = SAMPLES.with(|samples| samples.push(sample));
//! }
//!
//! # #[cfg(unix)] {
//! // SAFETY: the handler changes two structures of this module and does nothing else.
//! unsafe { signal::install(libc::SIGUSR1, on_tick)? };
//! // SAFETY: sends this thread a signal; a timer would do.
//! unsafe { libc::raise(libc::SIGUSR1) };
//!
//! // In the thread itself, at any time:
//! let taken = SAMPLES.with(|samples| samples.drain().count());
//! assert_eq!(taken as u64, TICKS.with(|ticks| ticks.take()));
//! # }
//! # Ok::<(), signal::Error>(())
//! ```
//!
//! Each structure is a handful of [`sequence!`](crate::sequence!)s in the forms for signals,
//! `restarting` and `rolling`. What follows holds for all of them; each structure's own page says
//! what is different there.
//!
//! # Scope
//!
//! [`SameThread`]: an operation is atomic against every signal handler that interrupts this thread
//! and does any operation on the same structure, at whatever instruction, and against handlers that
//! interrupt that handler. That holds for handlers that [`signal`](crate::signal) installed: their
//! delivery puts an interrupted operation right before they run. A structure is neither [`Send`]
//! nor [`Sync`], so no other thread ever reaches it.
//!
//! **Data that several threads and their handlers share belongs in [`percpu`](crate::percpu)**,
//! whose structures have the same names and methods, are as safe in signal handlers, and cost
//! little more.
//!
//! # Progress
//!
//! An operation that is interrupted starts again at the sequence it was in, or runs that sequence
//! to its end first; nothing waits for anything. So every operation ends unless signals come faster
//! than it takes, which is nanoseconds.
//!
//! # Cost
//!
//! No atomic instruction and no system call. An operation that is one sequence, which is all but
//! some of [`Ring`] and [`Map`], has no instruction for the handlers' sake: it is the same
//! structure as without handlers. One of several sequences asks in each whether a handler came in
//! between: a load, a comparison and a branch. What an interruption costs, the handler's
//! [delivery](crate::signal) pays. (Where there are no sequences, with `--cfg atomseq_portable` and
//! on systems other than Linux, each costs two system calls that block signals meanwhile.)
//!
//! # Memory, allocation
//!
//! A structure has its capacity in its type and its elements inside. Nothing allocates, ever.
//! `new` is `const`, so that a structure can be a [`per_thread!`] static. It may be moved like any
//! other value while it is not borrowed.
//!
//! # Errors and panics
//!
//! What does not fit comes back to the caller: `push` returns the element, [`Map`] puts it in
//! [`Full`]. A capacity that cannot be does not compile. Nothing panics. Dropped, a structure drops
//! what it holds, once.

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

/// Every sequence here by its file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(crate) const SEQUENCES: crate::internals::Sequences = &[
    ("local/counter", counter::SEQUENCES),
    ("local/map", map::SEQUENCES),
    ("local/queue", queue::SEQUENCES),
    ("local/ring", ring::SEQUENCES),
    ("local/stack", stack::SEQUENCES),
];
