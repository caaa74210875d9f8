//! Locks, and the test-and-set mechanisms that they are built on.
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
//! B91 compares mechanisms for one operation: setting a word and learning whether it was set
//! before. Here each mechanism is a type that implements [`TestAndSet`] and states its
//! [scope](crate::scope). A lock adds a way to wait, and takes a mechanism as a parameter. All
//! locks are those of the crate [`lock_api`], with its guards, mapped guards and deadlines:
//! [`Biased`] is `lock_api::Mutex<atomseq::mutex::RawBiased, T>`. [`Mutex`] and [`SpinLock`] use
//! [`Interlocked`]; [`MutexBy`] and [`SpinLockBy`] are the same locks by a mechanism of choice.
//!
//! # Choosing a lock
//!
//! Choose by what can access the data. A lock with a mechanism of scope `SameThread` is not `Sync`,
//! so a program that shares it with another thread does not compile.
//!
//! * **Only this thread and its signal handlers**: [`SpinLockBy`] [`Restarting`] or [`Rolling`], in
//!   a [`per_thread!`](crate::local::per_thread!) static. Handlers use `try_lock`. If the data
//!   is a single structure, [`local`](crate::local) needs no lock at all.
//! * **Mostly threads of one CPU at a time**: [`Biased`]. On its home CPU it costs no atomic
//!   instruction. If many CPUs use it alike, it becomes an ordinary lock. For per-CPU counters,
//!   stacks and pools, [`percpu`](crate::percpu) needs no lock.
//! * **Threads that are all bound to one CPU**: [`MutexBy`] [`OnCpu`].
//! * **All threads, which nearly always only read**: [`RwLock`].
//! * **All threads**: [`Mutex`]. Its waiters sleep, so it works well with more threads than CPUs.
//! * **All threads, for a few instructions, and holders that are never preempted**: [`SpinLock`],
//!   which is unlocked by a store. While a holder is preempted, waiters spin, then yield, until it
//!   runs again.
//!
//! A lock that only a thread and its handlers share:
//!
//! ```
//! use atomseq::mutex::{Restarting, SpinLockBy};
//!
//! atomseq::local::per_thread! {
//!     static TOTALS: SpinLockBy<Restarting, [u64; 2]> = SpinLockBy::new([0; 2]);
//! }
//!
//! TOTALS.with(|totals| *totals.lock() = [1, 1500]); // in the thread
//! // In a handler, which may have interrupted the holder:
//! let seen = TOTALS.with(|totals| totals.try_lock().map(|totals| *totals));
//! assert_eq!(seen, Some([1, 1500]));
//! ```
//!
//! # Mechanisms
//!
//! | mechanism | scope | cost to set and clear | in a signal handler |
//! |---|---|---|---|
//! | [`Interlocked`] | [`Machine`](crate::scope::Machine) | an atomic instruction; a store | yes |
//! | [`BiasedFlag`] | [`Machine`](crate::scope::Machine) | no atomic instruction on the home CPU; else a visit | yes |
//! | [`OnCpu`] | [`SameCpu`](crate::scope::SameCpu), and visitors | as `BiasedFlag` | yes |
//! | [`Restarting`] | [`SameThread`](crate::scope::SameThread) | no atomic instruction | only those of [`signal`](crate::signal) |
//! | [`Rolling`] | [`SameThread`](crate::scope::SameThread) | no atomic instruction | only those of [`signal`](crate::signal) |
//! | [`Masked`] | [`SameThread`](crate::scope::SameThread) | no atomic instruction, a mask | only those of [`signal`](crate::signal) |
//!
//! A visit from another CPU costs three system calls, four atomic instructions, and an interrupt of
//! the home CPU.
//!
//! [`chosen`] reports what each mechanism is in this process. The crate `atomseq-papers` has
//! mechanisms for comparison, for the same locks: software reservation and kernel emulation (B91,
//! sections 2.2 and 2.3). [`Counted`] around any mechanism counts what table 3 of B91 counts.
//!
//! # Locks
//!
//! | | [`SpinLock`] | [`Mutex`], [`Biased`] | [`Semaphore`] |
//! |---|---|---|---|
//! | a waiter | spins, then yields the processor | spins, yields, then sleeps | spins, yields, then sleeps |
//! | progress | blocks while held | blocks while held | blocks without a permit; releasing is lock-free |
//! | cost beyond the mechanism | none | see below | one atomic instruction each way |
//! | fair | no | only [`unlock_fair`](lock_api::MutexGuard::unlock_fair) | no |
//! | the holder is preempted | waiters use up their time slices | waiters sleep | waiters sleep |
//! | the holder's thread exits | stays held | stays held | the permit stays taken |
//! | the holder panics | unlocked, not poisoned | unlocked, not poisoned | the permit is released |
//! | bytes, with [`Interlocked`] | 4 | 8 | 4 |
//!
//! **Cost of sleeping.** On Linux, unlocking a [`Mutex`] takes two loads more than the mechanism.
//! On other systems, with [`Interlocked`], it takes an atomic instruction instead of a store. If a
//! thread sleeps, a wake-up costs one system call, and going to sleep costs two, of which one is a
//! barrier on all CPUs.
//!
//! **Fairness.** A thread that finds a lock free takes it, even if others have slept longer. A
//! thread that unlocks and locks again at once keeps the lock; this makes the lock fast, but a
//! waiter may starve. Of the sleeping threads, one of the highest real-time priority is woken, and
//! of those the one that has slept longest. `unlock_fair` and
//! [`bump`](lock_api::MutexGuard::bump) leave the flag set for that thread, so no other can take
//! the lock first. (On Linux. On other systems waiters do not sleep in the kernel, and this is an
//! ordinary unlock.) They need a mechanism that another thread may clear. [`SpinLock`] does not
//! have them, because it does not know its waiters.
//!
//! **Wake-ups.** An unlock wakes one thread. Until that thread has run, or another one falls
//! asleep, no other unlock makes a system call. A waiter whose deadline passes after it was woken
//! announces itself again before it returns, so the wake-up is not lost to other waiters.
//!
//! **Real-time threads.** A waiter for a [`SpinLock`] never sleeps: with a real-time policy on the
//! holder's CPU, it keeps an ordinary holder from running, indefinitely if the kernel sets
//! real-time threads no limit. Use a [`Mutex`] there.
//!
//! **Poisoning** does not exist: a guard that is dropped during unwinding unlocks. The data may be
//! in an inconsistent state. Keep a flag beside the data if that matters.
//!
//! **An exiting thread** that uses the system call directly, or a process that dies, unlocks
//! nothing. Code that knows that the holder has exited, and has repaired the data, may call
//! `force_unlock`, which wakes waiters as any unlock does. For waiters that exit:
//!
//! * A waiter that exits while it sleeps consumes no later wake-up.
//! * A waiter that an unlock has woken and that exits before it has run suppresses later wake-ups.
//!   Other sleepers sleep on, even if the lock is free, until another thread falls asleep on the
//!   lock and it is unlocked again, or a sleeper's deadline passes.
//! * A waiter that `unlock_fair` has woken and that exits before it has run leaves the lock held.
//!   Another waiter takes the lock over when it wakes up, for example because its deadline passes.
//!   If there is no other waiter, call `force_unlock`.
//!
//! **Fork.** The child finds each lock in the state at the fork. What the forking thread held, its
//! copy in the child holds and unlocks. What another thread held stays held in the child until
//! `force_unlock`. A lock that `unlock_fair` had handed to a thread that had not run yet goes to
//! the first waiter in the child that wakes up. As with any lock, acquire what the child needs
//! before the fork.
//!
//! **Signal handlers.** `try_lock`, `unlock`, [`Semaphore::try_acquire`], [`Semaphore::release`]
//! and notifications are async-signal-safe. `lock` on a lock that the interrupted thread holds
//! would wait indefinitely. In scope `SameThread` no other thread can hold the lock, so there
//! `lock` ends the process with a message, and a lock operation with a deadline fails at once.
//!
//! The first use of [`OnCpu`], [`BiasedFlag`] or [`Biased`] in a process [starts
//! atomseq](crate::status()), which a handler must not do.
//! [`signal::install`](crate::signal::install) does so before its handlers run. If you install
//! handlers in another way, call `status()` first.
//!
//! **Panics.** `lock` never unwinds. [`unlocked`](lock_api::MutexGuard::unlocked) and [`Condvar`]
//! reacquire the lock for a guard that survives a panic, and two guards of one lock would be two
//! exclusive references. `lock` therefore ends the process if it cannot succeed, or if a mechanism
//! of your own panics.
//!
//! **Memory.** `unlock` reads the lock again after it has released it. The guard borrows the
//! lock, so safe code cannot free it before that. Do not free a lock through a raw pointer merely
//! because the freeing thread was able to lock it.

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
mod readers;
mod relinquish;
mod rwlock;
mod semaphore;
mod spin;

use crate::local::Interruptible;

pub use chosen::{Choice, Runs, chosen};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use counted::{Counted, Counts, HasCounts, counts};
pub use mechanism::{
    BiasedFlag, Interlocked, Interventions, Masked, OnCpu, Restarting, Rolling, TestAndSet,
};
pub use relinquish::RawMutex;
pub use rwlock::RawRwLock;
pub use semaphore::{Permit, Semaphore, TooManyPermits};
pub use spin::RawSpin;

/// The crate whose locks and guards these are, for the names that this module does not repeat.
pub use ::lock_api;

/// A lock whose waiters sleep, with the data it protects.
///
/// ```
/// let total = atomseq::mutex::Mutex::new(0);
/// *total.lock() += 7;
/// assert_eq!(total.into_inner(), 7);
/// ```
pub type Mutex<T> = MutexBy<Interlocked, T>;

/// The guard of a [`Mutex`].
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex<Interlocked>, T>;

/// The guard of a part of what a [`Mutex`] protects; see
/// [`MutexGuard::map`](lock_api::MutexGuard::map).
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex<Interlocked>, T>;

/// A [`Mutex`] by a mechanism of choice.
///
/// ```
/// use atomseq::mutex::{MutexBy, OnCpu};
///
/// let total = MutexBy::<OnCpu, _>::new(0);
/// *total.lock() += 7;
/// ```
pub type MutexBy<M, T> = lock_api::Mutex<RawMutex<M>, T>;

/// A lock that many readers hold at a time, or one writer, with the data it protects.
///
/// Reading costs no atomic instruction while readers are *biased*: each adds to a count of its CPU
/// by a sequence, and subtracts by another when its guard is dropped, on whichever CPU that is. A
/// writer keeps new readers out, makes the kernel abort the sequences in progress, and waits until
/// the sum of all CPUs' counts is zero.
///
/// Readers become biased by a `read` that follows about 1,024 reads without a write. `try_read`
/// counts as a read, but never makes readers biased, because signal handlers may call it. A write
/// ends the bias, even one that times out, and costs a fence on all CPUs then: a system call that
/// interrupts each CPU that runs this process. Until readers are biased again, a read costs two
/// atomic instructions on a word that all CPUs share, and a write three and no fence. A write reads
/// a word per CPU, once readers have been biased. While a writer holds the lock or waits for it, a
/// `try_read` costs no atomic instruction, or three if the writer came in the middle of it, and
/// dropping a guard costs one more than otherwise. The drop, and a `try_read` of three, also make a
/// system call if that writer sleeps.
///
/// Scope [`Machine`](crate::scope::Machine). Blocks while a writer holds it, or for a writer while
/// readers do; waiters spin, yield, then sleep. Readers that find a writer, even a waiting one,
/// wait for it: a thread must not read twice at a time, because a writer may arrive in between, and
/// both would wait indefinitely. A writer that unlocks and locks again may keep readers out, as
/// with [`Mutex`]. There is no poisoning.
///
/// `is_locked` is a hint: it may miss readers. Once readers have been biased, it reads one count
/// after another. If meanwhile a thread reads on one CPU and drops its guard on another,
/// `is_locked` may return false although another guard exists all the time. `is_locked_exclusive`
/// also returns true while a writer waits for the readers to leave.
///
/// On 32-bit targets, more than 2^29 readers at a time end the process with a message. That takes
/// guards that are [forgotten](std::mem::forget).
///
/// Memory: 64 bytes on 64-bit targets; from the first bias on, also 128 bytes for each possible CPU
/// and twice more. Where the kernel's fence does not work
/// ([`gates_active`](crate::status::Status::gates_active)), and on other systems than Linux,
/// readers are never biased.
///
/// `try_read`, `try_write` and dropping a guard are async-signal-safe, after
/// [`status()`](crate::status()) has been called. What a thread holds when it exits stays held. The
/// child of a fork finds the lock as it was: held by the readers and writers of the parent, even if
/// their threads do not exist in the child, and by readers that were about to enter.
///
/// ```
/// use atomseq::mutex::RwLock;
///
/// static LIMITS: RwLock<[u32; 2]> = RwLock::new([8, 64]);
///
/// assert_eq!(LIMITS.read()[0], 8);
/// LIMITS.write()[0] = 16;
/// let both = (LIMITS.read(), LIMITS.try_write());
/// assert!(both.0[0] == 16 && both.1.is_none());
/// ```
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// The guard of a reader of a [`RwLock`].
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// The guard of a writer of a [`RwLock`].
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// The guard of a part of what a reader of a [`RwLock`] sees.
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;

/// The guard of a part of what a writer of a [`RwLock`] changes.
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// A lock whose waiters spin and yield, with the data it protects.
pub type SpinLock<T> = SpinLockBy<Interlocked, T>;

/// A [`SpinLock`] by a mechanism of choice.
pub type SpinLockBy<M, T> = lock_api::Mutex<RawSpin<M>, T>;

/// A lock that the threads of one CPU acquire without an atomic instruction while that CPU uses it
/// most, with the data it protects. [`BiasedFlag`] explains how that CPU is determined.
pub type Biased<T> = lock_api::Mutex<RawBiased, T>;

/// The raw lock of [`Biased`].
pub type RawBiased = RawMutex<BiasedFlag>;

/// A lock as a [`per_thread!`](crate::local::per_thread!) static, which a thread shares with its
/// handlers.
// SAFETY: every mechanism is atomic with respect to the handlers of its thread. At most one of the
// thread and its handlers therefore has a guard, wherever a handler interrupts. A value may pass
// from one to the other through the guard, as between threads: `T: Send`.
unsafe impl<M: TestAndSet, T: Send> Interruptible for lock_api::Mutex<RawSpin<M>, T> {}

/// A lock as a [`per_thread!`](crate::local::per_thread!) static, which a thread shares with its
/// handlers.
// SAFETY: every mechanism is atomic with respect to the handlers of its thread, so at most one of
// the thread and its handlers has a guard. `T: Send` lets a value pass between them. A handler that
// waits for its own thread waits indefinitely or ends the process, which is sound.
unsafe impl<M: TestAndSet, T: Send> Interruptible for lock_api::Mutex<RawMutex<M>, T> {}

/// Every sequence in this module, grouped by file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(crate) const SEQUENCES: crate::internals::Sequences = &[
    ("mutex/home", home::SEQUENCES),
    ("mutex/mechanism", mechanism::SEQUENCES),
    ("mutex/rwlock", rwlock::SEQUENCES),
];
