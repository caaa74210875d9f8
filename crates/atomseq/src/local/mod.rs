//! Structures that one thread shares with its own signal handlers: no atomic instruction, and not
//! one instruction more than without handlers.
//!
//! ```
//! use atomseq::local::{Counter, Ring};
//!
//! atomseq::local::per_thread! {
//!     static TICKS: Counter = Counter::new();
//!     static SAMPLES: Ring<(usize, u64), 256> = Ring::new();
//! }
//!
//! // In a signal handler, whatever it interrupts, another `push` on the same ring included:
//! fn on_tick(program_counter: usize, now: u64) {
//!     TICKS.with(|ticks| ticks.increment());
//!     // A full ring says so.
//!     let _lost = SAMPLES.with(|samples| samples.push((program_counter, now)));
//! }
//!
//! // In the thread itself, at any time:
//! # on_tick(0x1000, 7);
//! let taken = SAMPLES.with(|samples| samples.drain().count());
//! assert_eq!(taken as u64, TICKS.with(|ticks| ticks.drain()));
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
//! interrupt that handler. That holds for handlers that were installed through atomseq: their delivery
//! puts an interrupted operation right before they run. A structure is neither [`Send`] nor [`Sync`], so
//! no other thread ever reaches it.
//!
//! **Data that several threads and their handlers share belongs in [`percpu`](crate::percpu)**,
//! whose structures have the same names and methods, are as safe in signal handlers, and cost little
//! more.
//!
//! # Progress
//!
//! An operation that is interrupted starts again at the sequence it was in, or runs that sequence to
//! its end first; nothing waits for anything. So every operation ends unless signals come faster
//! than it takes, which is nanoseconds.
//!
//! # Cost
//!
//! No atomic instruction, no system call, no branch or store for the handlers' sake: the
//! instructions of the same structure without handlers. An interruption in the middle of an operation
//! costs the handler's delivery a search among the program's sequences. (Where there are no
//! sequences, with `--cfg atomseq_portable` and on systems other than Linux, each sequence costs two
//! system calls that block signals meanwhile.)
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
mod per_thread;
mod place;
mod points;
mod queue;
mod ring;
mod scope;
mod stack;

pub use counter::Counter;
pub use drain::Drain;
pub use map::{Full, Integer, Iter, Map};
pub use per_thread::PerThread;
pub use queue::Queue;
pub use ring::Ring;
pub use scope::{Interruptible, SameThread};
pub use stack::Stack;

#[doc(inline)]
pub use crate::__per_thread as per_thread;

/// What [`per_thread!`] expands to.
#[doc(hidden)]
pub use per_thread::Image;

/// Every sequence here by its file, for the checkers in `verify/`.
#[doc(hidden)]
pub const SEQUENCES: &[(&str, &[&crate::sequence::model::Program])] = &[
    ("local/counter", counter::SEQUENCES),
    ("local/map", map::SEQUENCES),
    ("local/queue", queue::SEQUENCES),
    ("local/ring", ring::SEQUENCES),
    ("local/stack", stack::SEQUENCES),
];
