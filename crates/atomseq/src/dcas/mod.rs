//! Double compare-and-swap (DCAS): two independent words, compared and changed in one atomic step.
//!
//! A [`Domain`] owns [`Cell`]s, the words, and counts modifications in a version number
//! ([GC96](crate#papers), section 5.1). Its operations compare and change one or two words, or up
//! to eight ([`Domain::compare_exchange_all`]). They also read several words as of one time, or
//! store to two words if the version is unchanged. A thread that is *stopped* inside an operation
//! (preempted, interrupted, exited, or just slow) does not block the others, except on the slow
//! path of OS-assisted DCAS, below. Every operation may be called from a signal handler, including
//! one that interrupted an operation on the same domain.
//!
//! [`Adjacent`] is a pair of words that lie side by side, which the processor changes in one
//! instruction. [`Packed`] is a pair of numbers in one word.
//!
//! # Mechanisms
//!
//! A process chooses one [`mechanism`] by what the kernel offers:
//!
//! | | [`Assisted`](Mechanism::Assisted) | [`Kcas`](Mechanism::Kcas) |
//! |---|---|---|
//! | scope | [`Machine`](crate::scope::Machine), one process | [`Machine`](crate::scope::Machine), one process |
//! | progress | obstruction-free: a thread that runs alone finishes in a bounded number of steps, whatever state other threads were stopped in, except on the slow path, where others wait for the lock's holder ([fewer than 1,024](crate::docs::limitations#double-compare-and-swap) of them while revoking another) | lock-free |
//! | atomic instructions of [`compare_exchange_pair`](Domain::compare_exchange_pair) | 1 | 6; 7 in a handler that interrupted one, and where the kernel does not report which threads have exited |
//! | of a read | 0 | 0, except to help an operation that is under way |
//! | system calls | none without contention; to revoke a holder that was stopped on another CPU, 2 | none without contention, except for a thread's first descriptor; a few each time while there is no memory for its page |
//! | where | Linux, if the rseq membarrier works ([`gates_active`](crate::status::Status::gates_active)) | everywhere else |
//!
//! **OS-assisted DCAS** (GC96, section 6.1, after Bershad 1993) is a lock that other threads can
//! revoke from a holder that the kernel interrupted. Here the kernel's part is restartable
//! sequences and `membarrier`. Harris and Fraser's *Revocable Locks for Non-Blocking Programming*
//! (2005) implements the same idea by other means. A thread takes the slow path that
//! [`percpu`](crate::percpu) has too if it cannot run restartable sequences, because it is exiting,
//! or if they are interrupted more often than the [restart limit](crate::set_restart_limit), as in
//! a debugger that steps it. It blocks its signals and takes the lock irrevocably, and other
//! threads wait for it, readers included. A reader also revokes a stopped holder, so readers need
//! write access to the memory.
//!
//! **k-CAS** replaces the version by a reference to a descriptor; this step decides the operation.
//! It then changes each word in two steps, which keep a delayed helper from corrupting it (Harris,
//! Fraser and Pratt 2002). Descriptors are reused at once (Arbel-Raviv and Brown 2017). A thread
//! helps each operation that it meets.
//!
//! **Memory of k-CAS.** A finished change leaves values in its words, except for a reference of a
//! thread that was delayed in it; so the memory does not grow with their number. A thread that uses
//! k-CAS owns a page of descriptors, 4 KiB; after it exits, another thread takes the page over. So
//! there are at most about twice as many pages as threads at a time that have used k-CAS. A few
//! more are shared, by handlers that interrupt their thread while it takes a descriptor. A table
//! takes 256 KiB of address space, of which one page is touched for every 512 pages of descriptors.
//! No operation fails or panics because it lacks a descriptor. A thread that cannot allocate a page
//! uses a shared descriptor: one of 240 in static memory, or one in the page of a thread that has
//! exited. It waits only while all of these are taken, which [may be
//! permanent](crate::docs::limitations#double-compare-and-swap). Apart from that, removing a value
//! and dropping a structure always succeed, and inserting a value fails only if there is no memory
//! for its node.
//!
//! Descriptors do not come from a [`type_stable::Pool`](crate::type_stable::Pool), for two reasons.
//! The pool is fast only with sections, and k-CAS is for systems without them. A thread that exits
//! inside the pool could block others, which k-CAS must not allow.
//!
//! # Contention
//!
//! Threads on several CPUs that change the same words at the same time slow each other down by more
//! than the serialization itself. A thread whose change lost to another thread's therefore backs
//! off: first it spins, and if this repeats within microseconds, it yields the CPU (`sched_yield`),
//! in a signal handler too. It never sleeps, because another thread may poll for the very change
//! that it was about to make. These do not back off: operations that find a word changed and
//! [`Domain::store_pair_if`], which return to their callers instead; under OS-assisted DCAS
//! [`Domain::compare_exchange_all`]; [`Adjacent`] and [`Packed`].
//!
//! # Processes
//!
//! A domain does not work in memory that several processes share. After a `fork` during another
//! thread's operation, the child may see the words of that operation as of different times. This
//! holds for everything that other threads were changing.

mod adjacent;
mod assisted;
mod backoff;
#[cfg(any(test, feature = "unstable-internals"))]
mod bare;
mod blocks;
mod cell;
mod cells;
mod contention;
mod covered;
mod descriptors;
mod domain;
mod kcas;
mod lock;
mod mechanism;
mod owner;
mod packed;
mod part;
mod revokers;
pub(crate) mod shadow;
mod state_word;
mod versioned_words;

pub use adjacent::Adjacent;
#[cfg(feature = "unstable-internals")]
pub use bare::Bare;
pub use cell::Cell;
pub use covered::Covered;
pub use domain::{Domain, Version};
pub use mechanism::{AlreadyChosen, Mechanism, force_kcas, mechanism};
pub use packed::Packed;

pub(crate) use backoff::{Backoff, Patience};
pub(crate) use cell::StableWord;
pub(crate) use cells::Cells;
pub(crate) use state_word::StateWord;
pub(crate) use versioned_words::{Reader, VersionedWords};

/// One word's part in an operation: the word, its expected value and its new value.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    word: &'a StableWord,
    old: u64,
    new: u64,
}

impl<'a> Change<'a> {
    /// Returns the change of `word` from `old` to `new`. If they are equal, the word is only
    /// compared.
    #[inline]
    pub fn of(word: &'a Cell, old: u64, new: u64) -> Change<'a> {
        Change {
            word: word.stable(),
            old,
            new,
        }
    }

    /// Returns the condition that `word` holds `value`. The operation does not change it.
    #[inline]
    pub fn compare(word: &'a Cell, value: u64) -> Change<'a> {
        Change::of(word, value, value)
    }
}

/// The maximum number of words that [`Domain::compare_exchange_all`] changes at once.
pub const MAX_CHANGES: usize = kcas::MAX;

/// The error of an operation that found another value or version than expected. Nothing was
/// changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed;

impl std::fmt::Display for Changed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a word or the version has changed: read the words again and retry")
    }
}

impl std::error::Error for Changed {}

/// The number of revocations of stopped holders, and of their rollbacks, in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// How many times a thread was revoked: a holder, or a revoker that was recovering from one.
    pub revocations: u64,
    /// How many revocations rolled back the changes of an unfinished operation.
    pub rollbacks: u64,
}

/// Returns the counts of this process so far, over all domains and all structures of
/// [`nonblocking`](crate::nonblocking). Two relaxed loads.
pub fn statistics() -> Statistics {
    // Relaxed: independent counters, which publish nothing.
    let count = |of: &std::sync::atomic::AtomicU64| of.load(std::sync::atomic::Ordering::Relaxed);
    Statistics {
        revocations: count(&assisted::REVOKED),
        rollbacks: count(&assisted::ROLLBACKS),
    }
}

/// Every sequence in this module, grouped by file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(crate) const SEQUENCES: crate::internals::Sequences = &[
    ("dcas/assisted", assisted::SEQUENCES),
    ("dcas/lock", lock::SEQUENCES),
];

#[cfg(test)]
mod tests;
