//! Locks, and the test-and-set that they are made of, by every mechanism there is for it.
//!
//! ```
//! use atomseq::mutex::{Biased, Condvar, Mutex};
//!
//! static QUEUE: Mutex<Vec<u32>> = Mutex::new(Vec::new());
//! static ARRIVED: Condvar = Condvar::new();
//! static HITS: Biased<u64> = Biased::new(0);
//!
//! std::thread::spawn(|| {
//!     *HITS.lock() += 1;
//!     QUEUE.lock().push(7);
//!     ARRIVED.notify_one();
//! });
//! let mut queue = QUEUE.lock();
//! ARRIVED.wait_while(&mut queue, |queue| queue.is_empty());
//! assert_eq!(queue.pop(), Some(7));
//! ```
//!
//! B91 compares mechanisms for one operation: to set a word and learn whether it was set before.
//! Each is a type here that implements [`TestAndSet`] and says its [scope](crate::scope). A lock is
//! a way to wait, and takes a mechanism as a parameter. All are `lock_api`'s: guards, mapped guards
//! and deadlines are those of that crate, and `lock_api::Mutex<atomseq::mutex::RawBiased, T>` is
//! [`Biased`].
//!
//! # Which lock
//!
//! What can interfere decides. A lock over data that more can reach than its mechanism is atomic
//! against does not compile.
//!
//! * **Nobody but this thread's signal handlers**: [`SpinLock`] with [`Restarting`] or [`Rolling`],
//!   in a [`per_thread!`](crate::local::per_thread!) static. Handlers use `try_lock`. For one
//!   structure, [`local`](crate::local) needs no lock at all.
//! * **Threads of one CPU at a time, mostly**: [`Biased`]. At home it costs no atomic instruction.
//!   What many CPUs use alike, it turns into an ordinary lock. For counters, stacks and pools of
//!   each CPU, [`percpu`](crate::percpu) needs no lock.
//! * **Threads that are all bound to one CPU**: [`Mutex`] with [`OnCpu`].
//! * **Every thread**: [`Mutex`]. Its waiters sleep, so it does no harm where there are more
//!   threads than CPUs.
//! * **Every thread, for a few instructions, and never preempted**: [`SpinLock`], which is unlocked
//!   by a store. A holder that is preempted lets the others spin, then yield, until it runs again.
//!
//! # Mechanisms
//!
//! | mechanism | scope | to set and to clear | in a signal handler |
//! |---|---|---|---|
//! | [`Interlocked`] | [`Machine`](crate::scope::Machine) | an atomic instruction; a store | yes |
//! | [`BiasedFlag`] | [`Machine`](crate::scope::Machine) | at home no atomic instruction; a visit costs three system calls, an interrupt and four atomic instructions | yes |
//! | [`OnCpu`] | [`SameCpu`](crate::scope::SameCpu), and visitors | the same | yes |
//! | [`Restarting`] | [`SameThread`](crate::scope::SameThread) | no atomic instruction | if [`signal`](crate::signal) installed it |
//! | [`Rolling`] | [`SameThread`](crate::scope::SameThread) | no atomic instruction | if [`signal`](crate::signal) installed it |
//! | [`Masked`] | [`SameThread`](crate::scope::SameThread) | no atomic instruction, a mask | if [`signal`](crate::signal) installed it |
//!
//! [`chosen`] tells what each is in this process. Those kept for comparison, software reservation
//! and kernel emulation (B91 2.2, 2.3), are in the crate `atomseq-papers`, for the same locks.
//! [`Counted`] around any of them counts what B91 table 3 counts.
//!
//! # Locks
//!
//! | | [`SpinLock`] | [`Mutex`], [`Biased`] | [`Semaphore`] |
//! |---|---|---|---|
//! | a waiter | tries again, then yields the processor each time | tries again a little, then sleeps | the same |
//! | progress | blocks while it is held | blocks while it is held | blocks while there is no permit; giving one back is lock-free |
//! | cost beside the mechanism's | none | to unlock, a load, and elsewhere than on Linux, with [`Interlocked`], an atomic instruction instead of a store; where somebody sleeps, a system call to wake and two to sleep, of which one is a barrier on all CPUs | one atomic instruction either way |
//! | fair | no | no; [`unlock_fair`](lock_api::MutexGuard::unlock_fair) hands it to one who sleeps | no |
//! | the holder is preempted | waiters use up their time slices | waiters sleep | waiters sleep |
//! | the holder's thread ends | it stays held | it stays held | its permit stays taken |
//! | the holder panics | it is unlocked, not poisoned | it is unlocked, not poisoned | its permit is given back |
//! | bytes, with [`Interlocked`] | 4 | 8 | 4 |
//!
//! **Fairness.** Whoever comes when a lock is free takes it, even if others have slept longer: a
//! thread that unlocks and locks again at once keeps it, which is what makes it fast, and a waiter
//! may starve. Of those who sleep, the one who has slept longest is woken. `unlock_fair` and
//! [`bump`](lock_api::MutexGuard::bump) leave the flag set for it, so that nobody comes in between
//! (Linux; elsewhere waiters are not asleep, and it is an ordinary unlock). They need a mechanism
//! that another thread may clear. A [`SpinLock`] has no such way: nobody knows who waits for it.
//!
//! **Wake-ups.** An unlock wakes one thread, and until that one has run, no other unlock makes a
//! system call. A waiter whose time is up after it was woken announces itself again before it
//! leaves, so that the wake-up is not lost to others.
//!
//! **Poisoning** there is none: a guard that is dropped while a panic unwinds unlocks. What it
//! guarded may be half changed. Whoever must know, keeps a flag beside the data.
//!
//! **A thread that ends** by the system call, or a process that dies, unlocks nothing. Whoever
//! knows that the holder is gone, and has put the data right, may call `force_unlock`, which wakes
//! waiters as any unlock does. A waiter that ends asleep takes no wake-up along that was made
//! later. A waiter that an unlock woke, and that ends before it has run, leaves later unlocks
//! silent: other sleepers sleep on, even if the lock is free, until one more thread falls asleep
//! for the lock and it is unlocked again, or a sleeper's time is up. One that `unlock_fair` woke
//! and that ends before it has taken the lock leaves it held, until another waiter wakes up, for
//! its time is up for example, and takes it over, or `force_unlock` is called where there is no
//! other.
//!
//! **Fork.** The child finds each lock as it was. What the forking thread held, its copy in the
//! child holds and unlocks; what another thread held, stays held there until `force_unlock`. A lock
//! that `unlock_fair` had handed to a thread that had not run yet goes to the first waiter in the
//! child that wakes up. Take what the child needs before the fork, as with any lock.
//!
//! **Signal handlers.** `try_lock`, `unlock`, [`Semaphore::try_acquire`], [`Semaphore::release`]
//! and notifications are async-signal-safe. `lock` of a lock that the interrupted thread holds
//! would wait indefinitely. In scope `SameThread` no other thread can hold it, so `lock` ends the
//! process instead, with a sentence that says so, and a deadline is over at once.
//!
//! The first use of [`OnCpu`], [`BiasedFlag`] or [`Biased`] in a process [starts atomseq
//! up](crate::status()), which a handler must not do: [`signal::install`](crate::signal::install)
//! has done so before its handlers run; where handlers are installed otherwise, call `status()`
//! first.
//!
//! **Panics.** `lock` never unwinds. [`unlocked`](lock_api::MutexGuard::unlocked) and [`Condvar`]
//! take the lock again behind a guard that survives a panic, and two guards of one lock would be
//! two exclusive references. So `lock` ends the process where it cannot succeed, or where a
//! mechanism of your own panics.
//!
//! **Memory.** `unlock` reads the lock once more after it was let go: with the guard it holds a
//! reference, so nothing safe can free it before. Do not free a lock by raw pointer in another
//! thread on the grounds that that thread could lock it.

mod barrier;
mod bias;
mod chosen;
mod condvar;
mod counted;
mod deadline;
mod home;
mod mechanism;
mod notification;
mod parking;
mod permits;
mod relinquish;
mod semaphore;
mod spin;
mod test_and_set;

use crate::local::Interruptible;

pub use chosen::{Choice, Runs, chosen};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use counted::{Counted, Counts, HasCounts, counts};
pub use mechanism::{BiasedFlag, Interlocked, Masked, OnCpu, Restarting, Rolling};
pub use relinquish::RawMutex;
pub use semaphore::{Permit, Semaphore, TooManyPermits};
pub use spin::RawSpin;
pub use test_and_set::{Interventions, TestAndSet};

/// A lock that is tried again and again, with the data it protects.
pub type SpinLock<T, M = Interlocked> = lock_api::Mutex<RawSpin<M>, T>;

/// A lock whose waiters relinquish the processor, with the data it protects.
pub type Mutex<T, M = Interlocked> = lock_api::Mutex<RawMutex<M>, T>;

/// A lock that the threads of one CPU take without an atomic instruction, as long as that CPU uses
/// it most, with the data it protects. [`BiasedFlag`] tells how it is decided which CPU that is.
pub type Biased<T> = lock_api::Mutex<RawBiased, T>;

/// What is behind [`Biased`].
pub type RawBiased = RawMutex<BiasedFlag>;

/// A lock as a [`per_thread!`](crate::local::per_thread!) static, which the thread shares with its
/// handlers.
// SAFETY: every mechanism is atomic against the handlers of the thread that it runs on, so of the
// thread and a handler that comes between any two of its instructions, one at most has a guard.
// What goes from one to the other through the guard may be used by either from then on, as if they
// were threads: it is `Send`.
unsafe impl<M: TestAndSet, T: Send> Interruptible for lock_api::Mutex<RawSpin<M>, T> {}

/// A lock as a [`per_thread!`](crate::local::per_thread!) static, which the thread shares with its
/// handlers.
// SAFETY: as above; handlers that wait would wait for ever, and harm nothing.
unsafe impl<M: TestAndSet, T: Send> Interruptible for lock_api::Mutex<RawMutex<M>, T> {}

/// Every sequence here by its file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(crate) const SEQUENCES: crate::internals::Sequences = &[
    ("mutex/home", home::SEQUENCES),
    ("mutex/signals", mechanism::SEQUENCES),
];
