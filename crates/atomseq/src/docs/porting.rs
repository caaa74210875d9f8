//! From `parking_lot`, `crossbeam` and `std`: the counterpart of each type, what differs, and what
//! is missing.
//!
//! # Locks
//!
//! The locks are those of the crate [`lock_api`], as `parking_lot`'s are. Most programs only change
//! the path of an import.
//!
//! ```
//! use atomseq::mutex::{Condvar, Mutex, MutexGuard, RwLock};
//!
//! let limit = RwLock::new(8);
//! let (queue, grown) = (Mutex::new(Vec::new()), Condvar::new());
//! let push = |queue: &mut MutexGuard<'_, Vec<u32>>, value| queue.push(value);
//!
//! push(&mut queue.lock(), *limit.read());
//! grown.notify_one();
//! assert_eq!(queue.lock().pop(), Some(8));
//! ```
//!
//! `lock_arc`, `read_arc` and `write_arc` need the feature `arc_lock` of `lock_api`: add
//! `lock_api = { version = "0.4", features = ["arc_lock"] }` to the dependencies.
//!
//! | theirs | ours | what differs |
//! |---|---|---|
//! | `parking_lot::Mutex`, `MutexGuard`, `MappedMutexGuard` | [`Mutex`](crate::mutex::Mutex), [`MutexGuard`](crate::mutex::MutexGuard), [`MappedMutexGuard`](crate::mutex::MappedMutexGuard) | 8 bytes instead of 1; never fair by itself, only by [`unlock_fair`](lock_api::MutexGuard::unlock_fair); a guard may be sent to another thread; unlocking takes no atomic instruction on Linux |
//! | `std::sync::Mutex` | the same | no poisoning: `lock` returns the guard itself |
//! | `parking_lot::RwLock`, its guards | [`RwLock`](crate::mutex::RwLock), [`RwLockReadGuard`](crate::mutex::RwLockReadGuard), [`RwLockWriteGuard`](crate::mutex::RwLockWriteGuard) | reading takes no atomic instruction while writes are rare, and the write that ends this costs a fence on all CPUs; no upgradable reads, no recursive reads, no fair unlocking |
//! | `std::sync::RwLock` | the same | no poisoning |
//! | `parking_lot::Condvar` | [`Condvar`](crate::mutex::Condvar) | works with several locks at a time; `notify_one` and `notify_all` count only threads that were asleep |
//! | `std::sync::Condvar` | the same | `wait` borrows the guard instead of taking it |
//! | `parking_lot::const_mutex`, `const_rwlock` | `new`, which is `const` | |
//! | a `spin` lock | [`SpinLock`](crate::mutex::SpinLock) | yields the processor after some rounds |
//! | `tokio::sync::Semaphore`, for threads | [`Semaphore`](crate::mutex::Semaphore) | blocks the thread; at most 2^31 - 1 permits |
//! | a mutex that one CPU uses most | [`Biased`](crate::mutex::Biased) | no atomic instruction on that CPU |
//!
//! Missing, because nothing here would make them better than they are there: `ReentrantMutex`,
//! `FairMutex`, `Once`, `OnceLock`, `Barrier`, `WaitGroup`, deadlock detection, `serde`. Use
//! `parking_lot`'s, `std`'s or `crossbeam_utils`' beside the types of this crate. A
//! [`Condvar`](crate::mutex::Condvar) also works with `parking_lot`'s mutexes, because both are
//! `lock_api`'s.
//!
//! # Queues and stacks
//!
//! | theirs | ours | what differs |
//! |---|---|---|
//! | `crossbeam_queue::ArrayQueue` | [`nonblocking::Queue`](crate::nonblocking::Queue) | `new` is [`with_capacity`](crate::nonblocking::Queue::with_capacity); elements of one word ([`AsWord`](crate::AsWord)): box larger ones; a stopped thread blocks no other; no `force_push` |
//! | `crossbeam_queue::SegQueue` | [`nonblocking::LinkedQueue`](crate::nonblocking::LinkedQueue) | `new` is not `const`: put a static one into a [`Lazy`](crate::Lazy); `len` takes time in proportion to the length; `push` returns an error if there is no memory; a stopped thread blocks no other; usable in signal handlers |
//! | `std::sync::mpsc`, `crossbeam_channel`, not blocking | the same, [`spsc::Ring`](crate::nonblocking::spsc::Ring), [`percpu::Queue`](crate::percpu::Queue) | they neither block nor close; `percpu::Queue` keeps the order of each CPU only |
//! | `Mutex<BinaryHeap>`, a timer wheel | [`nonblocking::PriorityQueue`](crate::nonblocking::PriorityQueue) | the least leaves first: wrap priorities in [`Reverse`](std::cmp::Reverse) for the greatest; equal ones leave in the order of insertion; entries are removed by handle; plain priorities |
//! | `crossbeam_deque` | [`percpu::Queue`](crate::percpu::Queue) and its [`steal`](crate::percpu::Queue::steal) | a part for each CPU instead of each worker |
//! | a Treiber stack | [`nonblocking::Stack`](crate::nonblocking::Stack), [`LinkedStack`](crate::nonblocking::LinkedStack) | nothing to reclaim |
//! | `rtrb`, `ringbuf` | [`spsc::Ring`](crate::nonblocking::spsc::Ring) | the ends that threads own are those of [`into_ends`](crate::nonblocking::spsc::Ring::into_ends), as `rtrb`'s `new` returns them; [`split`](crate::nonblocking::spsc::Ring::split) borrows the ring |
//!
//! Missing: channels that block, `select!`, unbounded channels that report that the other side has
//! gone.
//!
//! # Memory and counters
//!
//! | theirs | ours | what differs |
//! |---|---|---|
//! | `crossbeam_epoch`, `seize`, hazard pointers | [`type_stable::Pool`](crate::type_stable::Pool), [`nonblocking::RefList`](crate::nonblocking::RefList) | memory is reused at once and keeps its type; readers validate instead of announcing themselves; memory does not wait for readers |
//! | `AtomicU64` that many threads add to | [`percpu::Counter`](crate::percpu::Counter) | no atomic instruction; reading adds up one word per CPU |
//! | `thread_local!` with a handler | [`local::per_thread!`](crate::local::per_thread!) | reachable from signal handlers; holds nothing that must be dropped |
//! | `object_pool`, `lockfree-object-pool` | [`percpu::Pool`](crate::percpu::Pool) | objects of one word ([`AsWord`](crate::AsWord)): `Pool<Box<Vec<u8>>, _>`; a lease for a borrow ([`lease`](crate::percpu::Pool::lease)) or for an `Arc` ([`lease_owned`](crate::percpu::Pool::lease_owned)) |
//! | `crossbeam_skiplist::SkipMap` | [`nonblocking::List`](crate::nonblocking::List) | a search takes time in proportion to the length; plain keys and values |
//! | `AtomicU128`, `portable_atomic` | [`dcas::Adjacent`](crate::dcas::Adjacent) | values below 2^63 |
//! | `kcas` | [`dcas::Domain`](crate::dcas::Domain) | a version number for each domain |
//!
//! # Statics
//!
//! Locks, [`Condvar`](crate::mutex::Condvar), [`Semaphore`](crate::mutex::Semaphore),
//! [`dcas::Domain`](crate::dcas::Domain), and the counters, gauges and histograms of
//! [`percpu`](crate::percpu) are made by `const` functions, for a plain `static`. So are the
//! structures of [`local`](crate::local), but they belong to one thread: their statics are declared
//! by [`per_thread!`](crate::local::per_thread!), which gives each thread its own. Structures that
//! map memory when they are made go into a [`Lazy`](crate::Lazy), whose test at each use is one
//! load and one branch ([example](crate::percpu#memory-allocation-signals)). Where
//! `std::sync::LazyLock` waits for the thread that makes the value, a second user makes one of its
//! own, and the first one published wins.
//!
//! A [`Lease`](crate::percpu::Lease) of a static pool is `'static`, so another thread may get it:
//! no `Arc` and no [`lease_owned`](crate::percpu::Pool::lease_owned) is needed.
//!
//! Most constructors must not be called in a signal handler. So call
//! [`Lazy::force`](crate::Lazy::force) before handlers are installed, and let them read the value
//! by [`Lazy::get`](crate::Lazy::get), which makes nothing:
//!
//! ```
//! use atomseq::Lazy;
//! use atomseq::nonblocking::HashMap;
//!
//! static SESSIONS: Lazy<HashMap<u64, u64>> = Lazy::new(HashMap::new);
//! fn in_a_handler() -> Option<u64> {
//!     Lazy::get(&SESSIONS)?.get(&1)
//! }
//!
//! assert_eq!(in_a_handler(), None);
//! Lazy::force(&SESSIONS).insert(1, 10)?;
//! assert_eq!(in_a_handler(), Some(10));
//! # Ok::<(), atomseq::type_stable::Error>(())
//! ```
