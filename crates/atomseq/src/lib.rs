//! Per-CPU data, signal-safe data and non-blocking structures whose critical sections cost nothing
//! until something interrupts them.
//!
//! ```
//! use atomseq::percpu::{Counter, Pool};
//!
//! let requests = Counter::new();
//! let buffers = Pool::with_capacity_per_cpu(64, || Box::new([0u8; 4096]));
//!
//! std::thread::scope(|scope| {
//!     for _ in 0..4 {
//!         scope.spawn(|| {
//!             for _ in 0..1000 {
//!                 let mut buffer = buffers.lease().unwrap();
//!                 buffer[0] = 1;
//!                 requests.increment();
//!             }
//!         });
//!     }
//! });
//! println!("{} requests", requests.sum());
//! # assert_eq!(requests.sum(), 4000);
//! ```
//!
//! It prints:
//!
//! ```text
//! 4000 requests
//! ```
//!
//! Once each CPU has a buffer, the loops above execute no atomic read-modify-write instruction and
//! take no lock. An increment is one add to the memory of the CPU that the thread is on. If the
//! thread is interrupted between finding that memory and the add, the Linux kernel restarts those
//! few instructions. That almost never happens, so it costs almost nothing. Where the kernel cannot
//! do that, every operation takes a slow path instead: [`status()`] reports which path is in use,
//! and why.
//!
//! A *sequence* is the source of such instructions. When the kernel restarts it, its machine code
//! is a *section*.
//!
//! # What is where
//!
//! * [`percpu`]: structures with a part for each CPU, which threads and signal handlers share.
//! * [`local`]: structures that one thread shares with its own signal handlers, and statics of
//!   which each thread has its own.
//! * [`nonblocking`]: structures shared by all CPUs that no preempted, stopped or exited thread can
//!   block.
//! * [`dcas`]: double compare-and-swap, for words shared by all CPUs; `nonblocking` is built on it.
//! * [`type_stable`]: pools of descriptors in memory whose type never changes while any thread may
//!   read it.
//! * [`sequence!`] and [`sequence`](mod@sequence): the compiler for atomic sequences, for
//!   structures of your own, and the model to check them with. [`docs::patterns`] is the guide.
//! * [`mutex`]: locks, over a choice of mechanisms for test-and-set.
//! * [`signal`]: signal handlers that sequences are atomic against, and a signal mask without
//!   system calls.
//! * [`scope`]: which threads and handlers may interfere, as types.
//! * [`status`](mod@status): what this process can use, and why not.
//! * [`docs`]: patterns, internals, limitations, performance, [porting](docs::porting) from other
//!   crates, and [tools and deployment](docs::tools): Miri, sanitizers, valgrind, containers, musl.
//!
//! # The structures
//!
//! Choose by what may interfere. The structures in [`percpu`], for data that several threads share,
//! have scope `SameCpu`: an operation is atomic against every thread and signal handler on its CPU,
//! and other CPUs enter through a gate. All of them work in signal handlers and inside an
//! allocator. *Cost* is the fast path's, in atomic read-modify-write instructions; [`percpu`] says
//! what the slow path costs and when it is taken.
//!
//! | structure | what it is | progress | cost |
//! |---|---|---|---|
//! | [`Counter`](percpu::Counter) | a sum | wait-free | 0 |
//! | [`Counters`](percpu::Counters) | any number of sums in 8 bytes per CPU each | wait-free | 0 |
//! | [`Gauge`](percpu::Gauge) | a sum that is also set | wait-free; lock-free to set it | 0 |
//! | [`Histogram`](percpu::Histogram) | counts by value | wait-free | 0 |
//! | [`Stack`](percpu::Stack) | bounded, last in first out, one-word elements | waits only for a held [gate](percpu::GateGuard) | 0 |
//! | [`List`](percpu::List) | unbounded, last in first out, nodes of your own | waits only for a held [gate](percpu::GateGuard) | 0 |
//! | [`Queue`](percpu::Queue) | unbounded, first in first out, one-word elements | waits only for a held [gate](percpu::GateGuard) | 0 |
//! | [`Ring`](percpu::Ring) | bounded, first in first out, elements of up to 4 KiB, in batches | waits only for a held [gate](percpu::GateGuard) | 0 |
//! | [`Pool`](percpu::Pool) | a cache of objects over a shared source | that of its source; else waits only for a held [gate](percpu::GateGuard) | 0 |
//! | [`Area`](percpu::Area) | the memory for a structure of your own | | |
//!
//! The structures in [`local`], for data that one thread shares only with its own signal handlers,
//! have scope [`SameThread`](local::SameThread): an operation is atomic against the handlers that
//! [`signal`] installed. Their sequences need no extra instruction for that. Capacities are part of
//! the types, and nothing allocates.
//!
//! | structure | what it is | progress | cost |
//! |---|---|---|---|
//! | [`Counter`](local::Counter) | a sum | waits for nothing | 0 |
//! | [`Stack`](local::Stack) | bounded, last in first out, one-word elements | waits for nothing | 0 |
//! | [`Queue`](local::Queue) | bounded, first in first out, one-word elements | waits for nothing | 0 |
//! | [`Ring`](local::Ring) | bounded, first in first out, elements of any size, in batches | waits for nothing | 0 |
//! | [`Map`](local::Map) | a hash map of words by words | waits for nothing | 0 |
//! | [`per_thread!`](local::per_thread!) | statics of which each thread has its own, reachable from its handlers | | 0 |
//!
//! For descriptors that any thread may read, even after they have been freed, [`type_stable`] has
//!
//! | structure | what it is | progress | cost |
//! |---|---|---|---|
//! | [`Pool`](type_stable::Pool) | type-stable memory: descriptors of one type | lock-free; when nothing is free, waits for a held [gate](percpu::GateGuard) | 0 |
//! | [`Reference`](type_stable::Reference) | validated reads of an allocation that may have been freed | wait-free | 0 |
//! | [`Cache`](type_stable::Cache) | a bounded number of descriptors, written back to make room | its pool's, plus its owner's `choose` and `write_back` | 2 a use, and 1 to count it |
//!
//! For words that all CPUs change, [`dcas`] has scope `Machine`. A thread that is preempted,
//! stopped or interrupted in an operation, or exits there, does not block the others.
//!
//! | structure | what it is | progress | cost |
//! |---|---|---|---|
//! | [`Domain`](dcas::Domain) | words that change two at a time, with a version number, OS-assisted | obstruction-free | 1, a read 0 |
//! | | the same by k-CAS, where the kernel does not help | lock-free | 6, a read 0 |
//! | [`Domain::wide`](dcas::Domain::wide) | up to eight words at a time, by k-CAS | lock-free | 2k + 2, what is only compared 0 |
//! | [`Adjacent`](dcas::Adjacent) | two words side by side | lock-free | 1 |
//! | [`Packed`](dcas::Packed) | two numbers in one word | lock-free | 1 |
//!
//! For values shared by all CPUs, [`nonblocking`] has scope `Machine`. The obstruction-free
//! structures are built on [`dcas`]; progress and cost are those of the OS-assisted mechanism. With
//! k-CAS they are lock-free, at 4 to 6 a change. The other structures do not depend on the
//! mechanism; a [`Queue`](nonblocking::Queue) costs 4 to 8 where the processor has no double-width
//! compare-and-swap.
//!
//! | structure | what it is | progress | cost |
//! |---|---|---|---|
//! | [`Stack`](nonblocking::Stack) | bounded, last in first out, one-word elements | obstruction-free | 1 |
//! | [`Queue`](nonblocking::Queue) | bounded, first in first out, one-word elements | lock-free | 1, of double width |
//! | [`LinkedStack`](nonblocking::LinkedStack) | unbounded, last in first out, elements of any type; pushed at either end | obstruction-free | 1 |
//! | [`LinkedQueue`](nonblocking::LinkedQueue) | unbounded, first in first out, elements of any type | lock-free | 2 |
//! | [`List`](nonblocking::List) | keys and values that can be copied, in order or not | obstruction-free | 1 a change, 0 a search |
//! | [`HashMap`](nonblocking::HashMap) | keys and values that can be copied, by hash; grows and shrinks | lock-free | 2 an insertion, 1 a removal, 0 a lookup |
//! | [`RefHashMap`](nonblocking::RefHashMap) | the same, with values of any type, read through counted guards | lock-free | the same, a lookup 1, and 1 to release a guard |
//! | [`MultiMap`](nonblocking::MultiMap) | keys with sets of values that can be copied, by hash; GC96's dependency map | obstruction-free | 1 a change, 0 a search |
//! | [`RefList`](nonblocking::RefList) | values of any type, read through counted guards | obstruction-free | 1 to acquire a guard, and 1 to release it |
//! | [`OneVisitorList`](nonblocking::OneVisitorList) | values of any type, each visited by one thread at a time | obstruction-free | 1 a visit |
//! | [`ListCache`](nonblocking::ListCache) | a bounded number of descriptors, each on several lists, of which unused ones are written back | obstruction-free | 1 a change, 2 a use, 0 a search |
//! | [`PriorityQueue`](nonblocking::PriorityQueue) | the least priority out first, elements of any type, removed by handle; a delay queue | obstruction-free | 1 a change, 0 a search |
//! | [`PageMap`](nonblocking::PageMap) | entries of the pages of an address space, in a tree whose subtrees are unloaded | obstruction-free | 1 a change, 0 a lookup |
//! | [`Server`](nonblocking::Server) | an object whose operations are too large for DCAS, run one at a time on copies | obstruction-free | 1 while it is idle, a read 0 |
//! | [`spsc::Ring`](nonblocking::spsc::Ring) | bounded, first in first out, elements of any size, from one producer to one consumer | wait-free | 0 |
//!
//! Use a lock in [`mutex`] where none of these structures fits. *Cost* is that of locking and
//! unlocking without contention.
//!
//! | lock | what it is | progress | cost |
//! |---|---|---|---|
//! | [`Mutex`](mutex::Mutex) | waiters sleep | blocks while it is held | 1; on other systems than Linux 2 |
//! | [`Biased`](mutex::Biased) | waiters sleep; its home is the CPU that uses it most | blocks while it is held | 0 on the home CPU |
//! | [`SpinLock`](mutex::SpinLock) | waiters retry | blocks while it is held | 1; between a thread and its handlers 0 |
//! | [`RwLock`](mutex::RwLock) | many readers or one writer; waiters sleep | blocks while it is held | a read 0 while writes are rare, else 2; a write 3 |
//! | [`Semaphore`](mutex::Semaphore) | a number of permits | releasing a permit is lock-free | 2 |
//! | [`Condvar`](mutex::Condvar) | waits for a change of what a lock guards; works with any `lock_api` lock | notifying is wait-free | 0 to notify when no thread waits |
//!
//! # Papers
//!
//! | paper | what of it is here | where |
//! |---|---|---|
//! | B91: Bershad, *Mutual Exclusion for Uniprocessors*, 1991 | 2, test-and-set by every mechanism; 3.1.1, chosen at start-up; 4.3, what is counted | [`mutex`]; for comparison, reservation (2.2) and emulation (2.3) in the crate `atomseq-papers` |
//! | | 2.4, restartable sequences: one visible store, the last instruction | [`sequence!`] |
//! | | 3.1, restart by the kernel; 3.1.1, finding out at start-up whether it works | [`status`](mod@status), [`docs::internals`] |
//! | | 3.2, restart by the program itself, here by its signal handlers | [`sequence!`] |
//! | | 4.2 and 4.3, table 3, applications; 5, software against the interlocked instructions of its processors | the programs in `demos`, `procon` and `applications`; the command `atomseq bench` |
//! | M94: Mosberger, Druschel, Peterson, *A Fast and General Software Solution to Mutual Exclusion on Uniprocessors*, 1994 | 2.1.2, static registration, of sequences against signal handlers; 2.2.2, cloning | [`sequence!`], [`docs::internals`] |
//! | | 2.1.3, dynamic registration, of the kernel's sections: announced by a store that the kernel cancels | [`sequence!`], [`docs::internals`] |
//! | | 2.3.1, inspecting sequences, when the table is made; the watchdog | [`sequence!`], [`signal::set_rollforward_limit`] |
//! | | 2.1.1, designated sequences; 2.1.4, hybrid registration; 2.2.1, 2.2.3 and 2.2.4, other ways back; 3, Dyn/Jump, Dyn/Fault and Hyb/Jump, with levels | for comparison, `rollforward` in the crate `atomseq-papers` |
//! | | 2.3.2, page faults in a sequence: pinning, the rule of one page, gates | for comparison, in the crate `atomseq-papers` |
//! | GC96: Greenwald, Cheriton, *The Synergy Between Non-blocking Synchronization and Operating System Structure*, 1996 | 1, a handler that stores into the table that its thread is updating | [`local::Map`] |
//! | | 2, type-stable memory; the caching model; audits | [`type_stable`] |
//! | | figure 2, 5.1: a list under a version number; replaced by a duplicate; removed, modified and reinserted | [`nonblocking::List`] |
//! | | 5.1, a duplicate of a portion of the descriptor: the value | [`nonblocking::RefHashMap`] |
//! | | 5.1, a version in each bucket of a hash table | [`nonblocking::HashMap`] |
//! | | 5 and 5.2, delay queues; the virtual-to-physical map, a tree of depth 3 under its subtrees' version numbers | [`nonblocking::PriorityQueue`], [`nonblocking::PageMap`] |
//! | | 5.2, the dependency map: a hash table with a list in each bucket | [`nonblocking::MultiMap`] |
//! | | 5.2, a descriptor on multiple lists; 2, the caching model | [`nonblocking::ListCache`], [`type_stable::Cache`] |
//! | | 5.1 and 5.3, version numbers; note 5, compare-and-double-swap; 6.1, DCAS in software with the system's help | [`dcas`] |
//! | S92: Massalin, *Synthesis: An Efficient Implementation of Fundamental Operating System Services*, 1992 | 5, figures 5.1 to 5.3: atomic update, `CAS2` | [`dcas`] |
//! | | 5.1.4, code isolation: a queue of one producer and one consumer | [`nonblocking::spsc`] |
//! | | 5.1.4, a server that runs what callers enqueue (GC96, 5.2) | [`nonblocking::Server`] |
//! | | 5.2.1 and 5.2.2, figures 5.4 to 5.6: lists changed at their ends, stacks and queues in arrays | [`nonblocking::LinkedStack`], [`nonblocking::Stack`], [`nonblocking::Queue`] |
//! | | 5.2.3, figure 5.7: a list that is traversed with reference counts, or by one visitor at a time | [`nonblocking::RefList`], [`nonblocking::OneVisitorList`] |
//! | | 5.3, threads: operations on them, and levels of attention | the crate `atomseq-threads` |
//!
//! [`docs::internals`] lists where the code differs from them, and why.
//!
//! # Platforms
//!
//! | target | what runs |
//! |---|---|
//! | Linux, x86-64, glibc or musl | sequences |
//! | Linux, AArch64, glibc or musl | sequences |
//! | every other target with std; any with `--cfg atomseq_portable` | the slow path |
//!
//! Sequences need Linux 5.5, and all structures but [`Counter`](percpu::Counter),
//! [`Counters`](percpu::Counters), [`Gauge`](percpu::Gauge) and
//! [`Histogram`](percpu::Histogram) a kernel whose fence is [known to be
//! sound](docs::internals#start-up). The repository's README says what was run where.
//!
//! # Features
//!
//! No feature is on by default, and no program needs one.
//!
//! * `unstable-internals`: what the tests, benchmarks and command of this project reach into. It
//!   adds the module `internals` and its switches that turn protections off, constructors that
//!   force a mechanism, and operations that stop half way. Semantic versioning does not cover it:
//!   any release may change or remove all of it.

// Generated code names this crate from outside; inside, this makes the same name work.
extern crate self as atomseq;

#[cfg(all(test, atomseq_sections))]
mod affinity;
#[cfg(atomseq_sections)]
mod arch;
#[cfg(atomseq_sections)]
mod linux;
#[cfg(atomseq_sections)]
use linux as platform;

#[cfg(not(atomseq_sections))]
mod portable;
#[cfg(not(atomseq_sections))]
use portable as platform;

mod clock;
pub mod dcas;
mod distance;
pub mod docs;
mod drops;
mod elements;
mod end;
mod growth;
mod heap;
mod lazy;
pub mod local;
mod mappings;
pub mod mutex;
pub mod nonblocking;
mod or_panic;
pub mod percpu;
pub mod scope;
pub mod sequence;
pub mod signal;
pub mod status;
mod sync;
pub mod type_stable;
/// What unit tests of several modules use.
#[cfg(test)]
mod tests {
    pub(crate) mod panics;

    /// Returns how often a test repeats something: natively as often as given, and interpreted by
    /// Miri, which takes ten thousand times as long, a fiftieth of it, but at most 100 times.
    pub(crate) const fn rounds(natively: usize) -> usize {
        match natively.div_ceil(50) {
            _ if !cfg!(miri) => natively,
            fewer @ 0..=100 => fewer,
            _ => 100,
        }
    }
}
mod word;

pub use atomseq_macros::sequence;
pub use lazy::Lazy;
pub use sequence::set_restart_limit;
pub use status::status;
pub use word::AsWord;

#[doc(hidden)]
pub mod generated;
#[cfg(feature = "unstable-internals")]
pub mod internals;

/// README.md's Rust examples, compiled and run with the other doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
