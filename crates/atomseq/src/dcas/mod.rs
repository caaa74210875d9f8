//! Double compare-and-swap: two independent words, compared and changed at once.
//!
//! A [`Domain`] owns [`Cell`]s and has a version number (GC96 5.1). Its operations compare and
//! change one or two of the words, or up to eight (see [`Domain::compare_exchange_all`]), read
//! several as they were at one time, or change two if nothing has changed since a version. No
//! thread that is preempted, ended or interrupted inside one of them keeps the others waiting, and
//! all may be called from a signal handler that interrupted another one on the same domain.
//!
//! [`Adjacent`] is for two words that may lie side by side, which the processor changes by itself,
//! and [`Packed`] for two numbers that fit into one word.
//!
//! # Mechanisms
//!
//! Chosen once for the process ([`mechanism`]), by what the kernel offers:
//!
//! | | [`Assisted`](Mechanism::Assisted) | [`Kcas`](Mechanism::Kcas) |
//! |---|---|---|
//! | scope | `Machine`, one process | `Machine`, one process |
//! | progress | obstruction-free: alone, a thread ends in a bounded number of steps, whatever state others were stopped in ([fewer than 1,024](crate::docs::limitations#double-compare-and-swap) of them in the middle of revoking another) | lock-free |
//! | atomic instructions of [`compare_exchange_pair`](Domain::compare_exchange_pair) | 1 | 6; where the kernel says nothing of threads, and in a handler that interrupted one, 7 |
//! | of a read | 0 | 0, but for helping an operation that is under way |
//! | system calls | none; to throw a stopped holder out, 1 | none, but for a thread's first descriptor |
//! | where | Linux, where [gates are active](crate::status::Status::gates_active) | everywhere else |
//!
//! *Assisted* is GC96 6.1's, after Bershad 1993: a lock that the kernel helps to take away from a
//! holder that it interrupted, here by restartable sequences and `membarrier`; Harris and Fraser's
//! *Revocable Locks for Non-Blocking Programming* (2005) is the same idea by other means. A thread
//! that cannot run sections (a debugger steps it, or it is ending) takes the lock so that nobody
//! can take it away, with its signals blocked, and the others wait for it: the same slow path that
//! [`percpu`](crate::percpu) has. A reader that finds a stopped holder throws it out as well, so it
//! needs write access.
//!
//! *k-CAS* takes the version first, which decides the operation, and then changes each word in two
//! steps, by which a thread that comes late does no harm: Harris, Fraser and Pratt's way (2002),
//! with descriptors that are used again at once (Arbel-Raviv and Brown 2017). Each thread helps the
//! operation that it meets.
//!
//! Memory of k-CAS: a change leaves nothing behind in its words, so their number does not matter. A
//! thread that uses k-CAS has a page of descriptors, 4 KiB, which another thread takes over when it
//! has exited; there is a table of 256 KiB, of which a page is touched for every 512 threads. No
//! operation fails or panics for want of a descriptor: a thread that finds no memory for a page
//! uses a shared one: of 240 in static memory, and of the pages of threads that have exited. It
//! waits only while all of these are taken, which [may be for
//! good](crate::docs::limitations#double-compare-and-swap). Otherwise removing a value and dropping
//! a structure always succeed; inserting one fails if there is no memory for its node.
//!
//! The descriptors cannot come from a [`type_stable::Pool`](crate::type_stable::Pool). That needs
//! sections to be fast, and k-CAS is for where there are none; and a thread that exits inside a
//! pool could keep others waiting, inside k-CAS it cannot.
//!
//! # Contention
//!
//! Threads on several CPUs that change the same words at the same time cost each other more than
//! their turns. So who is forestalled gives way: it spins at first, and if it is forestalled again
//! within microseconds, time after time, it yields the CPU (`sched_yield`), in a signal handler as
//! well. It never sleeps: another thread may poll for just what it was about to do.
//!
//! # A process, and what comes after
//!
//! A domain is of no use in memory that processes share. In the child of a `fork` that came in the
//! middle of another thread's operation, the words of one operation may be copied at different
//! times, like everything that the other threads were changing.

mod adjacent;
mod assisted;
mod backoff;
#[cfg(any(test, feature = "unstable-internals"))]
mod bare;
mod blocks;
mod cell;
mod cells;
mod claimants;
mod contention;
mod covered;
mod descriptors;
mod domain;
mod homes;
mod kcas;
mod lock;
mod mechanism;
mod packed;
mod part;
pub(crate) mod shadow;
mod versioned_words;

pub use adjacent::Adjacent;
#[cfg(feature = "unstable-internals")]
pub use bare::Bare;
pub use cell::Cell;
pub use covered::Covered;
pub use domain::{Domain, Version};
pub use mechanism::{AlreadyChosen, Mechanism, force_kcas, mechanism};
pub use packed::Packed;

pub(crate) use backoff::Backoff;
pub(crate) use cell::StableWord;
pub(crate) use cells::Cells;
pub(crate) use versioned_words::VersionedWords;

/// One word's part in an exchange.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    word: &'a StableWord,
    old: u64,
    new: u64,
}

impl<'a> Change<'a> {
    /// From this value to that. The same twice only compares.
    #[inline]
    pub fn of(word: &'a Cell, old: u64, new: u64) -> Change<'a> {
        Change {
            word: word.stable(),
            old,
            new,
        }
    }

    /// That it is this value, and stays.
    #[inline]
    pub fn compare(word: &'a Cell, value: u64) -> Change<'a> {
        Change::of(word, value, value)
    }
}

/// The most words that [`Domain::compare_exchange_all`] changes at once.
pub const MAX_CHANGES: usize = kcas::MAX;

/// A word did not have the value it should have had, or the version was another one; nothing was
/// changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed;

impl std::fmt::Display for Changed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it has changed meanwhile: read again")
    }
}

impl std::error::Error for Changed {}

/// What throwing stopped holders out has amounted to, in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// How often a holder, or somebody who was recovering from one, was thrown out.
    pub revocations: u64,
    /// How often that undid something.
    pub undone: u64,
}

/// Counts of this process so far, over all domains and all structures of
/// [`nonblocking`](crate::nonblocking).
pub fn statistics() -> Statistics {
    // Relaxed: numbers on their own.
    let count = |of: &std::sync::atomic::AtomicU64| of.load(std::sync::atomic::Ordering::Relaxed);
    Statistics {
        revocations: count(&assisted::REVOKED),
        undone: count(&assisted::UNDONE),
    }
}

/// Every sequence here by its file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(crate) const SEQUENCES: crate::internals::Sequences = &[
    ("dcas/assisted", assisted::SEQUENCES),
    ("dcas/lock", lock::SEQUENCES),
];

#[cfg(test)]
mod tests;
