//! A runtime: many threads on few kernel threads. No thread can freeze the others.
//!
//! A [`Runtime`] has *workers*, by default one for each CPU. A worker runs the closures of its
//! threads one after the other, and divides its turns among eight levels of threads (S92, section
//! 5.3.1). A closure may do everything that a thread of `std` may: lock, print, allocate, block, or
//! compute for hours.
//!
//! ```
//! use atomseq_threads::runtime::{self, Runtime};
//!
//! let runtime = Runtime::new()?;
//! let sum = runtime.run(|| {
//!     let squares: Vec<_> = (1..=3).map(|n| runtime::spawn(move || n * n)).collect();
//!     squares.into_iter().map(|square| square.join().unwrap()).sum::<u64>()
//! });
//! assert_eq!(sum, 14);
//! # Ok::<(), runtime::Error>(())
//! ```
//!
//! # Kernel threads
//!
//! A closure stays on the kernel thread that began it. If it blocks in the kernel, waits by a
//! function of this module ([`park`], [`sleep`], a join), or uses up its slice while others wait,
//! it keeps that kernel thread, and the worker's *role* passes to another one from a pool. So all
//! state that the C library, `std` and the compiler keep for a kernel thread remains valid, unlike
//! on a stack that moves between kernel threads. A closure that does none of these costs two queue
//! operations and a call. Each wait and each preemption costs a switch of kernel threads, some
//! microseconds. To spawn and join takes about 100 ns if the spawner is a thread of the runtime
//! and joins at once, and 3.5 µs from outside on the worker's CPU, where a thread of `std` takes 29
//! µs (`atomseq bench threads`, on a virtual machine of two CPUs).
//!
//! A monitor, which is a kernel thread of its own, looks about eight times in a slice while threads
//! wait for a worker, twice if the closures compute or wait for a CPU, and about every 5 ms if a
//! slice is longer. It passes the role on from a closure that `/proc/self/task` shows as blocked,
//! and that has used less than half of the CPU's time since the last look. Where the system does
//! not show it, as without a free descriptor, the second condition alone decides. A closure that
//! has used its slice of CPU time is interrupted by a signal, whose handler waits until it is the
//! closure's turn again. While no thread waits for a worker, its closure is left alone. Each
//! closure that stays blocked adds about 0.1 µs to a look: with 500, the monitor takes 6 % of a CPU
//! instead of 1 % while others compute in slices of 10 ms.
//!
//! The signal interrupts system calls. Those that the kernel does not restart fail with `EINTR` if
//! the signal arrives as the thread enters one. While a preempted closure waits, the signals that
//! are sent to its kernel thread wait, too.
//!
//! There are at most [`Options::max_threads`] kernel threads. If all are taken, no closure begins
//! until one has finished, but those that have begun still take turns. A thread that a join or a
//! scope waits for then begins on the stack of the waiting thread, as long as half of that stack is
//! free and the waiting thread is not unwinding. The wait looks for it among all that cannot begin,
//! and finds those first that were spawned first. It does not begin on the stack of a thread that
//! waits in a [run of coroutines](crate::coroutine::run) or in a
//! [generator](crate::coroutine::Generator). If threads wait there, or in another way, for one that
//! has not begun, all may wait indefinitely. A worker that has nothing to do, and a caller outside
//! that joins a thread, look for up to 50 µs before they sleep, if their last wait was as short. If
//! the runtime may use one CPU only, they yield it between looks.
//!
//! Closures that run on the same kernel thread one after the other share its thread-locals, its
//! signal mask and [`std::thread::current`]. A closure that leaves the signal of preemption blocked
//! leaves the next ones without preemption.
//!
//! A join of the thread that the joiner spawned last may run it on the joiner's stack, too, if it
//! has not begun, and the joiner is in no run of coroutines. A thread on the stack of another one
//! uses that one's thread-locals, in whatever state they are. Until it has finished, the other one
//! is not suspended, signalled or destroyed.
//!
//! # Locks
//!
//! A closure may be preempted while it holds a lock. Threads that wait for the lock block in the
//! kernel, and their workers run others until it is the holder's turn. The waiters of a lock that
//! spins without blocking use up their slices first.
//!
//! The locks of `std` and of [`atomseq::mutex`] are used as they are: they do not [`park`]. A
//! thread that has begun keeps its kernel thread while it waits in either way, so parking saves no
//! kernel thread. It saves time: a park passes the role on at once, and a waiter for a lock keeps
//! it until the monitor has [looked](self#kernel-threads): with slices of 10 ms, for 1.4 ms in the
//! median of 20 waits, and 4.8 ms at most.
//!
//! For short critical sections that does not matter: the role seldom leaves a closure within one,
//! so few threads wait. 100 threads on two workers do 3.9 to 5.7 million critical sections a second
//! with the locks of `std`, parking_lot and [`atomseq::mutex`], 1.1 to 1.3 times what 100 threads
//! of `std` do, on 5 to 39 kernel threads (medians of five runs on a machine of two CPUs). If the
//! holder blocks, each waiter takes one: 100 threads took 102 to 132, in one run with each lock.
//! [`Options::max_threads`] is the bound.
//!
//! # Forks
//!
//! The child of a fork has only the calling thread, and no kernel thread of a runtime. It must not
//! use a runtime.

mod inherited;
pub(crate) mod lending;
mod linux;
mod list;
mod monitor;
mod preempt;
mod role;
mod scope;
mod shared;
pub(crate) mod state;
mod task;
mod thread;
mod worker;

use core::sync::atomic::{AtomicIsize, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fmt, io};

pub use inherited::Inherited;
pub(crate) use preempt::{change_mask, has_handler};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use task::Destroyed;
pub use thread::{Builder, JoinHandle, Thread, checkpoint, current, park, sleep, spawn, yield_now};
pub use worker::LEVELS;

use linux::{Patience, Threads};
use shared::{Carrier, Shared};
use worker::Worker;

/// The length of a slice, if the options name none.
pub const DEFAULT_SLICE: Duration = Duration::from_millis(10);

/// The shortest slice: with 1 ms, preemption costs about 1 % of the time.
pub const MIN_SLICE: Duration = Duration::from_millis(1);

/// A slice that never ends, in nanoseconds, so that sums with it do not overflow.
const LONGEST_SLICE: u128 = 1 << 60;

/// The maximum number of workers: that of the CPUs in the C library's sets. An idle worker looks at
/// the queues of all others.
pub const MAX_WORKERS: usize = 1024;

/// The smallest stack of a kernel thread, in bytes.
pub const MIN_STACK_SIZE: usize = 64 * 1024;

/// Why a runtime or a thread cannot begin.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The number of workers is zero.
    NoWorkers,
    /// The number of workers is larger than [`MAX_WORKERS`].
    TooManyWorkers(usize),
    /// The maximum number of kernel threads is too small for the workers, or larger than 32,766.
    MaxThreads {
        /// The maximum that was asked for.
        max: usize,
        /// The minimum for these workers.
        needs: usize,
    },
    /// The slice is too short.
    SliceTooShort(Duration),
    /// The stack is too small.
    StackTooSmall {
        /// The size that was asked for, in bytes.
        size: usize,
        /// The size that is needed.
        needs: usize,
    },
    /// There is no such level.
    Level(u8),
    /// The name of the kernel threads contains a zero byte.
    Name(String),
    /// The signal has a handler that is not a runtime's.
    SignalTaken(i32),
    /// No handler of that signal can wait, or the signal can be lost.
    SignalReserved(i32),
    /// The signal cannot be handled.
    Signal(io::Error),
    /// The system refuses what ends slices: to send a signal to a thread, or to show its CPU time.
    Slices(io::Error),
    /// The system refuses a kernel thread.
    Thread(io::Error),
    /// The system does not show which threads are blocked.
    Proc(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoWorkers => write!(
                f,
                "a runtime without workers runs nothing; give `Options::workers` 1 or more"
            ),
            Error::TooManyWorkers(count) => write!(
                f,
                "{count} workers are too many; give `Options::workers` at most {MAX_WORKERS}"
            ),
            Error::MaxThreads { max, needs } => write!(
                f,
                "{max} kernel threads are not possible with these workers; give \
                 `Options::max_threads` {needs} to {}",
                role::MAX_CARRIERS
            ),
            Error::SliceTooShort(slice) => write!(
                f,
                "a slice of {slice:?} would be spent on preemption; give {MIN_SLICE:?} or more"
            ),
            Error::StackTooSmall { size, needs } => write!(
                f,
                "a stack of {size} bytes is too small; give `Options::stack_size` {needs} or more"
            ),
            Error::Level(level) => write!(
                f,
                "there is no level {level}; give `Builder::level` 0 to {}",
                LEVELS - 1
            ),
            Error::Name(name) => write!(
                f,
                "the name {name:?} contains a zero byte; give `Options::name` one without"
            ),
            Error::SignalTaken(signal) => write!(
                f,
                "signal {signal} has a handler; give `Options::signal` one that is free"
            ),
            Error::SignalReserved(signal) => write!(
                f,
                "signal {signal} cannot end slices; give `Options::signal` another one, as SIGURG"
            ),
            Error::Signal(error) => write!(f, "no handler for the end of slices: {error}"),
            Error::Slices(error) => write!(
                f,
                "slices would not end: {error}; let the sandbox allow tgkill and clock_gettime"
            ),
            Error::Thread(error) => write!(
                f,
                "no kernel thread for a runtime: {error}; raise RLIMIT_NPROC (`ulimit -u`) or the \
                 limit of the control group, or use fewer workers"
            ),
            Error::Proc(error) => write!(
                f,
                "/proc/self/task does not show which threads are blocked: {error}; mount /proc"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Signal(error)
            | Error::Slices(error)
            | Error::Thread(error)
            | Error::Proc(error) => Some(error),
            _ => None,
        }
    }
}

/// What the drop of a runtime does about threads that have not finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDrop {
    /// Waits for them, and for the kernel threads to exit. A drop by one of its own threads, which
    /// would wait for itself, detaches.
    #[default]
    Wait,
    /// Returns at once. When all have finished, the kernel threads exit.
    Detach,
}

/// The options of a runtime.
///
/// ```
/// use std::time::Duration;
/// use atomseq_threads::runtime::Options;
///
/// let runtime = Options::new().workers(2).slice(Duration::from_millis(5)).start()?;
/// assert_eq!(runtime.run(|| 7), 7);
/// # Ok::<(), atomseq_threads::runtime::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing before `start`"]
pub struct Options {
    workers: Option<usize>,
    max_threads: usize,
    slice: Duration,
    signal: i32,
    stack_size: usize,
    pins: bool,
    on_drop: OnDrop,
    name: String,
    #[cfg(feature = "unstable-internals")]
    without: Vec<Protection>,
    #[cfg(feature = "unstable-internals")]
    gap: Option<fn()>,
}

/// What can be switched off, for tests which show that it is needed.
#[cfg(feature = "unstable-internals")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// The role passes on from a closure that blocks.
    HandOff,
    /// The role passes on from a closure whose slice is over.
    Preemption,
    /// Idle workers steal.
    Stealing,
    /// Each level has its turns.
    Turns,
    /// A scheduler frees no entry.
    LaterFrees,
    /// A thread that is resumed is pushed to its queue.
    Resumption,
    /// A thread that is destroyed unwinds at its next safepoint.
    Destruction,
}

/// Returns whether the calling kernel thread is the scheduler of a worker, or a monitor: it must
/// neither allocate nor free. For tests; a global allocator may call it.
#[cfg(feature = "unstable-internals")]
pub fn is_scheduling() -> bool {
    Carrier::get().is_some_and(|carrier| carrier.shared().is_scheduling(carrier))
        || monitor::IS_MONITOR.get()
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

impl Options {
    /// Returns the default options: a worker for each CPU that the calling thread may run on, each
    /// kept to its CPU; slices of [`DEFAULT_SLICE`]; up to 512 kernel threads more than two for
    /// each worker, with stacks of 2 MiB; the drop [waits](OnDrop::Wait).
    pub fn new() -> Options {
        Options {
            workers: None,
            max_threads: 0,
            slice: DEFAULT_SLICE,
            signal: libc::SIGURG,
            stack_size: 2 * 1024 * 1024,
            pins: true,
            on_drop: OnDrop::Wait,
            name: "atomseq".to_owned(),
            #[cfg(feature = "unstable-internals")]
            without: Vec::new(),
            #[cfg(feature = "unstable-internals")]
            gap: None,
        }
    }

    /// Sets the number of workers, which is the number of closures that run at a time: at most
    /// [`MAX_WORKERS`].
    pub fn workers(mut self, count: usize) -> Options {
        self.workers = Some(count);
        self
    }

    /// Sets the maximum number of kernel threads for closures: at least two for each worker, or 0
    /// for the default. Each thread that has begun and not finished occupies one.
    pub fn max_threads(mut self, count: usize) -> Options {
        self.max_threads = count;
        self
    }

    /// Sets how long a closure runs before it is preempted, if others wait: in CPU time. The
    /// monitor may notice the end up to two [looks](self#kernel-threads) late.
    pub fn slice(mut self, slice: Duration) -> Options {
        self.slice = slice;
        self
    }

    /// Sets the signal that ends slices. The default is `SIGURG`, which debuggers pass on silently.
    /// Its handler stays installed, so a [coroutine run](crate::coroutine::Builder) with slices
    /// refuses that signal, and this one the run's.
    ///
    /// Signals that faults raise, and `SIGABRT`, are refused, since no handler blocks them. So are
    /// real-time signals: the system loses one where `RLIMIT_SIGPENDING` is reached.
    ///
    /// If a closure replaces the program (`exec` without a fork), a signal that is on its way comes
    /// to the new one. So where closures do that, choose one that is ignored by default.
    pub fn signal(mut self, signal: i32) -> Options {
        self.signal = signal;
        self
    }

    /// Sets the size of the kernel threads' stacks, in bytes. A thread that
    /// [runs in a join](self#kernel-threads) has at least half of one, less what the system takes.
    pub fn stack_size(mut self, bytes: usize) -> Options {
        self.stack_size = bytes;
        self
    }

    /// Sets whether each worker's kernel threads are pinned to one CPU, where a switch between them
    /// costs half as much as between two CPUs. Do not pin them if other programs share the CPUs.
    /// What a closure starts inherits its CPU: processes, threads of `std`, and another runtime,
    /// which then has one worker by default.
    pub fn pinned(mut self, pins: bool) -> Options {
        self.pins = pins;
        self
    }

    /// Sets what the drop of the runtime does.
    pub fn on_drop(mut self, on_drop: OnDrop) -> Options {
        self.on_drop = on_drop;
        self
    }

    /// Sets the name of the kernel threads, to which a number is added. It may not contain a zero
    /// byte.
    pub fn name(mut self, name: impl Into<String>) -> Options {
        self.name = name.into();
        self
    }

    /// Switches a protection off.
    #[cfg(feature = "unstable-internals")]
    pub fn without(mut self, protection: Protection) -> Options {
        self.without.push(protection);
        self
    }

    /// Sets what a scheduler calls between the end of a sleeper's time and its wake.
    #[cfg(feature = "unstable-internals")]
    pub fn gap(mut self, gap: fn()) -> Options {
        self.gap = Some(gap);
        self
    }

    /// Starts a runtime: two kernel threads for each worker, and two more.
    ///
    /// # Errors
    ///
    /// All of [`Error`] but [`Level`](Error::Level). No kernel thread is left then.
    ///
    /// # Panics
    ///
    /// If the system refuses memory for the workers' queues.
    pub fn start(self) -> Result<Runtime, Error> {
        let cpus = linux::cpus();
        let workers = self.workers.unwrap_or(cpus.len().clamp(1, MAX_WORKERS));
        if workers == 0 {
            return Err(Error::NoWorkers);
        }
        if workers > MAX_WORKERS {
            return Err(Error::TooManyWorkers(workers));
        }
        let needs = 2 * workers;
        let max = match self.max_threads {
            0 => needs + 512,
            max => max,
        };
        if max < needs || max > role::MAX_CARRIERS {
            return Err(Error::MaxThreads { max, needs });
        }
        if self.slice < MIN_SLICE {
            return Err(Error::SliceTooShort(self.slice));
        }
        let size = self.stack_size;
        if size < MIN_STACK_SIZE {
            let needs = MIN_STACK_SIZE;
            return Err(Error::StackTooSmall { size, needs });
        }
        if self.name.contains('\0') {
            return Err(Error::Name(self.name));
        }
        let threads = Threads::open().map_err(Error::Proc)?;
        linux::ends_slices().map_err(Error::Slices)?;
        preempt::install(self.signal)?;
        let cpu_of = |index: usize| match self.pins && !cpus.is_empty() {
            true => Some(cpus[index % cpus.len()]),
            false => None,
        };
        let strict = !self.takes_turns();
        let shared = Arc::new(Shared {
            slice: self.slice.as_nanos().min(LONGEST_SLICE) as u64,
            workers: (0..workers)
                .map(|index| {
                    let patience = Patience::new(cpus.len());
                    Worker::new(role::ORPHAN, cpu_of(index), max, strict, patience)
                })
                .collect(),
            carriers: (0..max).map(|_| OnceLock::new()).collect(),
            created: AtomicUsize::new(0),
            spares: AtomicIsize::new(0),
            orphans: AtomicUsize::new(workers),
            sleeping: AtomicUsize::new(0),
            live: AtomicUsize::new(1),
            ended: AtomicU32::new(0),
            turn: AtomicUsize::new(0),
            patience: Patience::new(cpus.len()),
            monitor: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
            unused: list::Stack::new(),
            threads,
            options: self,
        });
        let mut started = Vec::new();
        let all = (0..needs).try_for_each(|_| {
            started.push(monitor::start(&shared)?);
            Ok(())
        });
        let all = all.and_then(|()| {
            let of_monitor = Arc::clone(&shared);
            started.push(
                std::thread::Builder::new()
                    .name("atomseq-monitor".to_owned())
                    .spawn(move || monitor::monitor(&of_monitor))?,
            );
            Ok(())
        });
        // The nursery joins these threads. If it cannot be started, they are joined below.
        let started = Arc::new(std::sync::Mutex::new(started));
        let nursery = all.and_then(|()| {
            let (shared, started) = (Arc::clone(&shared), Arc::clone(&started));
            std::thread::Builder::new()
                .name("atomseq-nursery".to_owned())
                .spawn(move || {
                    let started = core::mem::take(&mut *lock(&started));
                    monitor::nursery(&shared, started);
                })
        });
        match nursery {
            Ok(nursery) => Ok(Runtime {
                shared,
                nursery: Some(nursery),
            }),
            Err(error) => {
                shared.release();
                for thread in core::mem::take(&mut *lock(&started)) {
                    let _ = thread.join();
                }
                Err(Error::Thread(error))
            }
        }
    }

    #[cfg(feature = "unstable-internals")]
    fn has(&self, protection: Protection) -> bool {
        !self.without.contains(&protection)
    }
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Defines a method for each protection, which returns whether it is switched on.
macro_rules! protections {
    ($($name:ident $protection:ident)*) => {
        impl Options {
            $(
                #[inline]
                fn $name(&self) -> bool {
                    #[cfg(feature = "unstable-internals")]
                    {
                        self.has(Protection::$protection)
                    }
                    #[cfg(not(feature = "unstable-internals"))]
                    {
                        true
                    }
                }
            )*
        }
    };
}
protections! {
    hands_off HandOff
    preempts Preemption
    steals Stealing
    takes_turns Turns
    frees_later LaterFrees
    resumes Resumption
    destroys Destruction
}

/// Workers with their kernel threads: see the [module](self).
///
/// Its drop waits for the threads or leaves them running: see [`OnDrop`].
pub struct Runtime {
    shared: Arc<Shared>,
    nursery: Option<std::thread::JoinHandle<()>>,
}

// A panic in a closure is the closure's, and leaves all of these as they were.
impl UnwindSafe for Runtime {}
impl RefUnwindSafe for Runtime {}
impl UnwindSafe for Thread {}
impl RefUnwindSafe for Thread {}
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("workers", &self.shared.workers.len())
            .field("kernel_threads", &self.kernel_threads())
            .field("threads", &self.threads())
            .finish()
    }
}

impl Runtime {
    /// Starts a runtime with the [default options](Options::new).
    ///
    /// # Errors
    ///
    /// See [`Options::start`].
    ///
    /// # Panics
    ///
    /// As [`Options::start`].
    pub fn new() -> Result<Runtime, Error> {
        Options::new().start()
    }

    /// Spawns a thread without a name, of level 0, on the next idle worker, or on the next one if
    /// none is idle. If a thread of this runtime calls it, it spawns the thread on its own worker,
    /// with its own name and level.
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match Builder::new().spawn_on(self, f) {
            Ok(handle) => handle,
            Err(error) => panic!("{error}"),
        }
    }

    /// Calls `f` in a thread of the runtime, and returns its result.
    ///
    /// # Panics
    ///
    /// With the panic of `f`.
    #[track_caller]
    pub fn run<F, R>(&self, f: F) -> R
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        let joined = self.scope(|scope| scope.spawn(f).join());
        joined.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    }

    /// Calls `f` in the calling thread with a scope of this runtime: see [`scope`].
    ///
    /// # Panics
    ///
    /// As [`scope`].
    #[track_caller]
    pub fn scope<'env, F, R>(&self, f: F) -> R
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    {
        scope::scope_in(&self.shared, f)
    }

    /// Returns the number of kernel threads for closures.
    pub fn kernel_threads(&self) -> usize {
        self.shared.created.load(SeqCst)
    }

    /// Returns the number of threads that have not finished. One that was joined may still be
    /// counted for a moment.
    pub fn threads(&self) -> usize {
        self.shared.live.load(SeqCst) - 1
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.shared.release();
        let is_own = Carrier::get()
            .is_some_and(|carrier| core::ptr::eq(carrier.shared, Arc::as_ptr(&self.shared)));
        if self.shared.options.on_drop == OnDrop::Detach || is_own {
            return;
        }
        let nursery = self.nursery.take();
        // Waits for all the others. Closures do not unwind out of it.
        if let Some(Err(_)) = nursery.map(std::thread::JoinHandle::join) {
            unreachable!("a runtime's own threads do not panic");
        }
    }
}
