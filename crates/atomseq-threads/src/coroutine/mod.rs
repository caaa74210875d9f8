//! Coroutines: user-level threads of one kernel thread, with a stack each (B91, section 3.2).
//!
//! [`run`] makes the calling thread their kernel thread. Inside of it, [`spawn`] makes a coroutine,
//! and [`yield_now`], [`park`], [`JoinHandle::join`], the [`Mutex`], the [`Condvar`], the
//! [`Semaphore`], the [`Barrier`] and [`channel`]s let others run, first in, first out;
//! [`scope`](scope()) makes coroutines that borrow. A switch takes no system call and no atomic
//! instruction, and costs a few nanoseconds. A [`Generator`] is an iterator whose function has a
//! stack of its own; it needs no run.
//!
//! ```
//! use atomseq_threads::coroutine;
//!
//! let sum_of_squares = || {
//!     let squares: Vec<_> = (1..=3)
//!         .map(|n| {
//!             coroutine::spawn(move || {
//!                 coroutine::yield_now();
//!                 n * n
//!             })
//!         })
//!         .collect();
//!     squares.into_iter().map(|square| square.join().unwrap()).sum::<u64>()
//! };
//! // SAFETY: switches outside of thread-locals.
//! assert_eq!(unsafe { coroutine::run(sum_of_squares) }, 14);
//! ```
//!
//! # One kernel thread
//!
//! Coroutines share their thread's identity: its thread-locals, its signal mask, the floating-point
//! control words, [`std::thread::current`]. A coroutine that blocks in the kernel blocks all of
//! them. So does one that waits for a lock of `std` or of [`atomseq::mutex`] which another
//! coroutine holds, and it never wakes: use the [`Mutex`] of this module, or the [`SharedMutex`]
//! for what other threads lock too. No other structure, guard or handle here is [`Send`].
//!
//! Where a coroutine waits and all others wait too, so that none can wake it, its call panics and
//! says so. [`Mutex`] and [`scope`](scope()) end the process instead, for they must not unwind. A
//! [`SharedMutex`] waits on, since another thread may unlock it.
//!
//! While a coroutine unwinds and its destructors switch to others, these see
//! [`std::thread::panicking`] as true. A panic hook must not switch: a panic of another coroutine
//! would abort the process.
//!
//! # Safety
//!
//! Calls on a thread end in the reverse order of their beginning, and some code is sound only
//! because of that. A switch breaks the order: while a function waits in one, another coroutine can
//! enter the same code, and still be in it when the first one leaves. No type marks such code. So
//! [`run`], [`Builder::run`] and the functions that make a [`Generator`] are unsafe. Their caller
//! promises the following, for all code that runs as a coroutine of the run, and for all that
//! resumes, drops or is the function of the generator. The safe functions of this module rely on
//! these promises, and need no others.
//!
//! A switch is a call that lets others run or waits for them, the end of a
//! [`scope`](scope()) included; a generator's [`next`](Iterator::next), the drop of one whose
//! function is suspended, and [`Yielder::suspend`].
//!
//! 1. **No initial value of a thread-local**, as of a `std::thread_local!`, contains a switch that
//!    leads to code which uses that variable. The standard library would later drop the value to
//!    which that code has a reference.
//! 2. **No destructor of a thread-local** contains a switch that leads to code which has a
//!    reference to another one, as inside of [`LocalKey::with`](std::thread::LocalKey::with): that
//!    one may have been dropped. Destructors run when the thread exits, and inside of the run when
//!    a coroutine exits the process. So a thread-local must not own a generator whose function is
//!    suspended with such a reference.
//! 3. **No thread of a scope**, as [`std::thread::scope`] makes them, has a reference to a
//!    thread-local of the thread that waits for it, if the scope contains a switch from which its
//!    function may never return. The scope would then never end, and the thread that it belongs to
//!    would exit, and drop the thread-local. No function returns from a switch if its generator is
//!    forgotten, or, in a program that aborts where others unwind, dropped; nor if it waits as its
//!    run ends in a deadlock.
//! 4. **No scope that a library keeps in a thread-local, or in an object** that several coroutines
//!    use, contains a switch, if the scopes must end in the reverse order. `scoped_tls`, for
//!    example, sets a pointer while a closure runs, and then restores the one before. Coroutines
//!    leave their scopes in any order, so the pointer to a scope that has ended can come back. An
//!    interpreter that calls a function of the program keeps a frame for the call, on a stack of
//!    its own. If another coroutine has called since, the end of the call removes the wrong frame.
//! 5. **No function of another package's stackful coroutine** suspends but in the coroutine that
//!    has resumed it, nor inside of a run that it has begun. It would leave a coroutine, or a run,
//!    that still counts as the running one. A generator's `suspend` panics there.
//! 6. **No code that takes its stack for the thread's own** runs in a coroutine or a generator: for
//!    example, a garbage collector that looks for references on that stack only.
//!
//! To break any of these is undefined behaviour. Other code may contain a switch: the closure of
//! `LocalKey::with`, since a function that outlives its thread's thread-locals never continues; a
//! borrow of a `RefCell`, during which conflicting borrows of other coroutines panic;
//! `catch_unwind`; [`std::thread::scope`] without such references; and the guards of `std`'s locks,
//! for which another coroutine must not wait, as said above.
//!
//! # Preemption
//!
//! With [`Builder::slice`], a signal comes at the end of each slice of time. Inside of
//! [`preemptible`], it makes the coroutine yield at whatever instruction it has reached. Elsewhere
//! the coroutine keeps the thread until it yields itself. A preempted coroutine's registers are
//! saved on its stack; on x86-64, of the extended state what the processor reports as in use. While
//! it waits, others run with its floating-point control words, and with an empty x87 stack. On
//! AArch64 it continues by three system calls, and is not preempted where the kernel saves more
//! than 4 KiB of vectors.
//!
//! A tick does not preempt while less than the saved registers need is left of the stack, nor on a
//! thread whose [alternate stack](atomseq::signal::AlternateStack) other code has taken away. The
//! coroutine then yields at its next call of this module inside of the region, if that is not to an
//! uncontended [`Mutex`]. How much is left of the thread's own stack, which the first coroutine
//! uses, is not examined: there a tick can be what makes it overflow.
//!
//! The timer belongs to the thread that runs: the child of a fork has no ticks. The signal is the
//! run's: a handler that the process had for it is replaced, and is not called. Ticks interrupt
//! system calls everywhere on the thread; those that the kernel does not restart, `poll` and
//! `nanosleep` among them, fail with `EINTR`.
//!
//! # Stacks
//!
//! A stack is mapped, has a guard page, and is touched by use alone. A coroutine that overflows it
//! ends the process with a message, unless other code has installed a handler of `SIGSEGV` since
//! the first run, or the thread has no alternate stack: the system refuses one, or other code takes
//! it away. The stack of a finished coroutine is used again when all its handles have been dropped.
//! Of those that are left when the run ends, the thread keeps 1 MiB for its next runs and
//! generators until it exits, and unmaps the others. A handle that outlives the run keeps its stack
//! mapped.
//!
//! Beside its own frames, a coroutine's stack holds the closure and its result, a panic's frames
//! (about 4 KiB and more), and those of signal handlers without `SA_ONSTACK` (the kernel's frame is
//! about 3.5 KiB with AVX-512). Rust code touches each page of a large frame, so it meets the guard
//! page; C code that was compiled without `-fstack-clash-protection` can jump over it.
//!
//! valgrind's memcheck does not know these stacks, and [reports accesses to
//! them](atomseq::docs::tools#valgrind) as invalid.

mod barrier;
pub mod channel;
mod condvar;
mod generator;
mod handle;
mod mutex;
mod preempt;
mod scheduler;
mod scope;
mod semaphore;
mod shared;

use core::ptr::NonNull;
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;
use std::{fmt, io};

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::Condvar;
pub use generator::{Generator, Yielder};
pub use handle::{Coroutine, JoinHandle, current, spawn, try_spawn};
pub use mutex::{MappedMutexGuard, Mutex, MutexGuard, RawMutex};
use scheduler::{Control, Scheduler, State, expect_scheduler, scheduler};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use semaphore::{Permit, Semaphore};
pub use shared::{RawSharedMutex, SharedMutex, SharedMutexGuard};

/// The size of a stack, in bytes, if the builder names none.
pub const DEFAULT_STACK_SIZE: usize = 64 * 1024;

/// The smallest stack, in bytes.
pub const MIN_STACK_SIZE: usize = 4096;

/// The signal of ticks, if the builder names none: `SIGVTALRM`, which debuggers pass on silently. A
/// [runtime](crate::runtime) has another one by default.
pub const DEFAULT_SIGNAL: i32 = libc::SIGVTALRM;

/// The shortest slice. A tick costs some microseconds.
pub const MIN_SLICE: Duration = Duration::from_micros(100);

/// Why a run or a coroutine cannot begin.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The thread is in a run already.
    Nested,
    /// The stack is too small.
    StackTooSmall {
        /// The size that was asked for, in bytes.
        size: usize,
        /// The size that is needed.
        needs: usize,
    },
    /// The slice is too short.
    SliceTooShort(Duration),
    /// This processor cannot preempt coroutines.
    NoPreemption,
    /// The system refuses memory for a stack.
    Stack(io::Error),
    /// The system refuses a timer.
    Timer(io::Error),
    /// The signal ends the slices of a [runtime](crate::runtime).
    SignalTaken(i32),
    /// The signal of ticks cannot be handled.
    Signal(atomseq::signal::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Nested => write!(
                f,
                "this thread is in `coroutine::run` already; call `spawn` there"
            ),
            Error::StackTooSmall { size, needs } => write!(
                f,
                "a stack of {size} bytes is too small; give `Builder::stack_size` {needs} or more"
            ),
            Error::SliceTooShort(slice) => write!(
                f,
                "a slice of {slice:?} would be spent on ticks; give {MIN_SLICE:?} or more"
            ),
            Error::NoPreemption => write!(
                f,
                "this processor lacks XSAVEC, which preemption needs; leave `Builder::slice` out"
            ),
            Error::Stack(error) => write!(
                f,
                "no memory for a coroutine's stack: {error}; use smaller or fewer stacks, or raise \
                 vm.max_map_count (each takes two mappings)"
            ),
            Error::Timer(error) => write!(
                f,
                "no timer for slices: {error}; raise RLIMIT_SIGPENDING (`ulimit -i`)"
            ),
            Error::SignalTaken(signal) => write!(
                f,
                "signal {signal} ends the slices of a runtime; give `Builder::signal` another one"
            ),
            Error::Signal(error) => write!(f, "no handler for the end of slices: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Stack(error) | Error::Timer(error) => Some(error),
            Error::Signal(error) => Some(error),
            _ => None,
        }
    }
}

/// The options of a run.
///
/// ```
/// use std::time::Duration;
/// use atomseq_threads::coroutine::Builder;
///
/// let builder = Builder::new().stack_size(16 * 1024);
/// let builder = builder.slice(Duration::from_millis(10));
/// // SAFETY: does not switch.
/// let seven = unsafe { builder.run(|| 7)? };
/// assert_eq!(seven, 7);
/// # Ok::<(), atomseq_threads::coroutine::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing before `run`"]
pub struct Builder {
    stack_size: usize,
    slice: Option<Duration>,
    signal: i32,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// Returns the default options: stacks of [`DEFAULT_STACK_SIZE`], no preemption.
    pub const fn new() -> Builder {
        Builder {
            stack_size: DEFAULT_STACK_SIZE,
            slice: None,
            signal: DEFAULT_SIGNAL,
        }
    }

    /// Sets the size of the coroutines' stacks, in bytes; rounded up to whole pages.
    pub const fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = bytes;
        self
    }

    /// Sets the length of a slice of time, and with it preemption inside of [`preemptible`].
    ///
    /// Such a run installs its handler first, which examines those of all signals. That costs
    /// about 0.3 ms and some 130 bytes that are never freed, so make few runs rather than many.
    pub const fn slice(mut self, slice: Duration) -> Builder {
        self.slice = Some(slice);
        self
    }

    /// Sets the signal that ends a slice; [`DEFAULT_SIGNAL`] if this is not called. Its handler
    /// stays installed when the run has ended. If the thread has blocked the signal, the run
    /// unblocks it, and blocks it again at its end.
    ///
    /// Signals that faults raise, and `SIGABRT`, are refused: no handler blocks them. A signal that
    /// ends the slices of a runtime is refused too.
    pub const fn signal(mut self, signal: i32) -> Builder {
        self.signal = signal;
        self
    }

    /// Calls `f` as the first coroutine of this kernel thread, and returns what it returns when all
    /// coroutines have finished.
    ///
    /// The first coroutine runs on the stack of the caller. The run begins with a look at each
    /// [`Generator`] of the thread, about 8 ns each.
    ///
    /// # Safety
    ///
    /// `f`, the coroutines, and all that they call keep the [rules of this module](self#safety):
    /// they do not switch inside of a thread-local's initial value or destructor, nor inside of
    /// scopes that must end in the reverse order, nor out of the run, nor indefinitely in a scope
    /// whose threads have references to thread-locals.
    ///
    /// # Errors
    ///
    /// [`Error::Nested`], [`Error::StackTooSmall`], and with a slice [`Error::SliceTooShort`],
    /// [`Error::NoPreemption`], [`Error::Timer`], [`Error::SignalTaken`] and [`Error::Signal`].
    ///
    /// # Panics
    ///
    /// With the panic of `f`, when all other coroutines have finished. If some cannot finish, since
    /// all of them wait for each other: their stacks are leaked then.
    #[track_caller]
    pub unsafe fn run<R>(self, f: impl FnOnce() -> R) -> Result<R, Error> {
        if scheduler().is_some() {
            return Err(Error::Nested);
        }
        let size = self.stack_size;
        if size < MIN_STACK_SIZE {
            let needs = MIN_STACK_SIZE;
            return Err(Error::StackTooSmall { size, needs });
        }
        let preemption = match self.slice {
            Some(slice) => Some(preempt::prepare(slice, size)?),
            None => None,
        };
        let alternate = preempt::report_overflows(self.slice.is_some());
        if let (Some(_), Err(error)) = (self.slice, &alternate) {
            return Err(Error::Signal(*error));
        }
        // Before the scheduler, so that `f` is not dropped inside of a run that does not begin.
        let _ticks = match self.slice {
            Some(slice) => Some(preempt::Ticks::start(slice, self.signal)?),
            None => None,
        };
        // Made before the scheduler, and dropped after it.
        let _no_suspension = generator::NoSuspension::new();
        let (outcome, left) = {
            let first = First(scheduler::first());
            // SAFETY: `first` is dropped after it.
            let scheduler = unsafe { Scheduler::new(first.0, size, preemption) };
            scheduler.enter(|| {
                let outcome = panic::catch_unwind(AssertUnwindSafe(f));
                (outcome, scheduler.wait_for_all())
            })
        };
        // Outside of the run, so that a result which is dropped here spawns nothing in it.
        match outcome {
            Err(payload) => panic::resume_unwind(payload),
            Ok(_) if left > 0 => panic!("{left} coroutines wait for each other and cannot finish"),
            Ok(result) => Ok(result),
        }
    }
}

/// The run's reference to its first coroutine.
struct First(NonNull<Control>);

impl Drop for First {
    fn drop(&mut self) {
        // SAFETY: its own reference; the run ends, and with it the coroutine.
        unsafe {
            self.0.as_ref().state.set(State::Finished);
            scheduler::release(self.0);
        }
    }
}

/// Calls `f` as the first coroutine of this kernel thread, with the default options: see
/// [`Builder::run`].
///
/// # Safety
///
/// As [`Builder::run`]: all that `f` calls keeps the [rules of this module](self#safety).
///
/// # Panics
///
/// As [`Builder::run`], and if the thread is in a run already.
#[track_caller]
pub unsafe fn run<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: the caller's promise.
    match unsafe { Builder::new().run(f) } {
        Ok(result) => result,
        Err(error) => panic!("{error}"),
    }
}

/// Lets the other coroutines run that are ready. Returns when it is this one's turn again, at once
/// if there are none.
///
/// # Panics
///
/// Outside of [`run`].
#[inline(always)] // not for the call: its return would be predicted wrongly after a switch
#[track_caller]
pub fn yield_now() {
    expect_scheduler().yield_now();
}

/// Blocks this coroutine until another one calls [`Coroutine::unpark`] for it, or returns at once
/// if one has since the last `park`.
///
/// # Panics
///
/// Outside of [`run`], and if no other coroutine can run, so that none can call `unpark`.
#[inline(always)] // as `yield_now`
#[track_caller]
pub fn park() {
    if !expect_scheduler().park() {
        panic!("all coroutines wait, so none can unpark this one");
    }
}

/// Calls `f`, during which the end of a slice makes this coroutine yield, at whatever instruction
/// it has reached. Without [`Builder::slice`] it only calls `f`.
///
/// Calls may be nested. If a tick has come since this coroutine's last call of this module, or
/// during a [`yield_now`], it yields at once.
///
/// # Panics
///
/// Outside of [`run`], and with the panic of `f`, if that is sound.
///
/// # Safety
///
/// Other coroutines run in the middle of `f`, on the same kernel thread. So it must not
///
/// * call anything that keeps state for a thread and can be found in the middle of a change: the
///   allocator, input and output, locks other than those of this module, thread-locals that others
///   use, panics;
/// * change what other coroutines share with it, but under a lock of this module or by an atomic
///   sequence;
/// * rely on the code that interrupts it to return before it continues, as signal handlers do:
///   [`atomseq::local::Map`] and [`Ring`](atomseq::local::Ring) rely on that, and so does
///   [`atomseq::signal::mask`] if another coroutine yields inside of a mask;
/// * run on another stack than the coroutine's, as the function of a [`Generator`] does;
/// * use the matrix registers of AMX or SME.
///
/// The functions of this module may be called, but not so that they panic. So may the operations of
/// the stacks, the queues and the [priority queue](atomseq::nonblocking::PriorityQueue) of
/// [`atomseq::nonblocking`], and of the counters and stacks of [`atomseq::percpu`], on values
/// without destructors. The signal handlers of the process that may interrupt `f` block the tick's
/// signal, as all of `atomseq::signal` do.
#[track_caller]
pub unsafe fn preemptible<R>(f: impl FnOnce() -> R) -> R {
    struct Restore<'a>(&'a Control, bool);
    impl Drop for Restore<'_> {
        fn drop(&mut self) {
            self.0.preemptible.set(self.1);
            // What follows stays behind it.
            compiler_fence(SeqCst);
        }
    }
    let scheduler = expect_scheduler();
    let current = scheduler.current();
    // What precedes stays before it.
    compiler_fence(SeqCst);
    let _restore = Restore(current, current.preemptible.replace(true));
    // Yields if a tick has come.
    scheduler.begin();
    scheduler.end();
    f()
}
