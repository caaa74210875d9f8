//! Signal handlers that sequences are atomic against, and a signal mask for about a nanosecond.
//!
//! ```
//! use atomseq::signal;
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! static SEEN: AtomicUsize = AtomicUsize::new(0);
//!
//! fn count(_event: &mut signal::Event<'_>) {
//!     SEEN.fetch_add(1, Ordering::Relaxed);
//! }
//!
//! # #[cfg(unix)] {
//! // SAFETY: the handler adds to a static; it neither allocates, nor locks, nor panics.
//! unsafe { signal::install(libc::SIGUSR1, count)? };
//!
//! let masked = signal::mask();
//! // SAFETY: sends a signal to this thread.
//! unsafe { libc::raise(libc::SIGUSR1) };
//! assert_eq!(SEEN.load(Ordering::Relaxed), 0); // deferred
//! drop(masked);
//! assert_eq!(SEEN.load(Ordering::Relaxed), 1); // delivered
//! # }
//! # Ok::<(), signal::Error>(())
//! ```
//!
//! The examples use the crate `libc`, for the numbers of signals and for `raise`.
//!
//! # What a handler may rely on
//!
//! A signal with a handler installed here is **managed**. Its handler never observes the
//! interrupted thread in the middle of a `restarting` or `rolling` form of a
//! [`sequence!`](crate::sequence!) (scope `SameThread`): it runs before or after the sequence.
//!
//! * A `restarting` sequence is restarted at its first instruction (B91 3.2).
//! * A `rolling` sequence is first run to its end. The delivery executes the remaining instructions
//!   in a clone of the sequence (M94 2.2.2).
//! * Inside a [`mask()`], the signal is deferred until the outermost mask ends.
//!
//! None of these adds an instruction to the sequence. A delivery costs the kernel's own delivery,
//! one look-up and two system calls; a restart or a rollforward adds a few instructions. The kernel
//! delivers a signal that a mask defers twice, and it takes five further system calls.
//!
//! Handlers of other code are made to block the managed signals while they run. Otherwise a managed
//! signal could interrupt such a handler over a half-done sequence. A handler that is already
//! running when [`install`] or [`repair()`] is called still admits newly managed signals until it
//! returns. [`audit()`] reports handlers that other code installed later, and [`repair()`] extends
//! their masks too. The C library installs two handlers of its own late, with the first thread and
//! the first `pthread_cancel`. [`install`], [`audit()`] and [`repair()`] cover those without a
//! finding.
//!
//! # Dispositions that others save and put back
//!
//! A handler that other code installs over atomseq's may pass signals on to it. Other code may read
//! a disposition while atomseq's handler is installed, and put it back or pass signals on to it
//! later. That disposition stands for
//!
//! * atomseq's handler, while that is installed;
//! * what was there before the handler, once it was [uninstalled](uninstall), or once another one
//!   was installed over a handler of other code that had displaced it;
//! * the default action, once a handler for [one signal](Options::once) is used up.
//!
//! [`uninstall`], [`audit()`] and [`repair()`] never remove a handler that other code has installed
//! over atomseq's. [`install`] installs over it, as over any handler of other code.
//!
//! # Deferred signals
//!
//! A deferred signal is queued to the kernel again, blocked, with its record. The kernel delivers
//! it a second time when the mask ends. In four cases the thread keeps the signal instead, and
//! calls the handler itself when the mask ends:
//!
//! * `SIGCONT`, `SIGTSTP`, `SIGTTIN` and `SIGTTOU`: sending one of them discards others that are
//!   pending. A kept one is discarded as if it were pending: when a signal of its number is
//!   pending, or one of the opposite kind that was sent later.
//! * A real-time signal for whose record the user's queue (`RLIMIT_SIGPENDING`) has no room.
//! * A standard signal of a POSIX timer, and a real-time signal of `kill`. The kernel would merge
//!   such a signal with another one of its number: the timer's if the timer has expired again, that
//!   of `kill` if the queue is full.
//! * Signals that the kernel accepts neither through `rt_tgsigqueueinfo` nor through `tgkill`,
//!   because a sandbox refuses both.
//!
//! The handler of a kept signal runs on the thread's own stack. Its [`Event::context()`] holds the
//! program counter, the stack and frame pointers and the mask at the mask's end; only changes to
//! the mask take effect. A handler that asks for the [alternate stack](Options::on_alternate_stack)
//! gets its signal from the kernel except in the sandbox case. What the other three cases prevent
//! then [may happen](crate::docs::limitations#signal-handlers-and-masks). [`Statistics::kept`] and
//! [`Statistics::refused`] count these signals.
//!
//! # What a handler may do
//!
//! A handler runs between two instructions of any code, so it may only call what is
//! async-signal-safe. Of this crate that is:
//!
//! * every operation of [`local`](crate::local), [`percpu`](crate::percpu),
//!   [`nonblocking`](crate::nonblocking), [`dcas`](crate::dcas) and
//!   [`type_stable`](crate::type_stable) on a structure that already exists, except where its page
//!   says otherwise (operations that return a `Vec`, for example);
//! * of [`mutex`](crate::mutex), what its paragraph [*Signal handlers*](crate::mutex#locks) lists;
//! * sequences;
//! * of this module, [`mask()`], [`is_masked`], [`is_managed`], [`own_mask`], [`statistics()`] and
//!   [`original_pc`].
//!
//! Constructors, installing, removing and auditing are not. `errno` is saved before the handler and
//! restored after it.
//!
//! A panic in a handler aborts the process with a message, because it cannot unwind through the
//! interrupted code. The panic's own message comes from the standard library, which takes a lock
//! for it. With glibc, `pthread_exit` and cancellation unwind as well, and abort too.
//!
//! All managed signals are blocked while a handler runs, unless [`Options`] say otherwise. Every
//! signal that can be blocked is blocked until the delivery has decided how the interrupted
//! sequence continues, and while a handler runs [inside](Interrupted::Inside) a sequence. That
//! includes signals that are not managed, so their handlers may leave by `siglongjmp`.
//!
//! # Signals that are never held back
//!
//! This module never blocks `SIGSEGV`, `SIGBUS`, `SIGFPE`, `SIGILL`, `SIGTRAP` and `SIGSYS`, which
//! faults raise, nor `SIGABRT`. A mask does not hold them back, even when another process sends
//! them. Two exceptions block more:
//!
//! * A thread that holds a [gate](crate::percpu::GateGuard) has every signal blocked.
//! * `SIGABRT` is blocked while [`install`], [`uninstall`], [`audit()`] or [`repair`] changes
//!   handlers.
//!
//! The C library's signals 32 and 33 are blocked only until a delivery has decided, and under a
//! gate. Handlers of other code for the first seven signals are called through this module.
//!
//! One of the seven that is sent finds sequences as any managed signal does. If it interrupts
//! another signal's delivery, it waits until the sequence that this delivery has interrupted is
//! complete. Its handler then runs first.
//!
//! One that an instruction raises, a fault, is delivered at once. Its handler runs in the middle of
//! the faulting sequence and reports [`Interrupted::Inside`]: a sequence is only atomic if it does
//! not fault (M94 2.3.2). Handlers that interrupt that handler report the same. Managed signals
//! that can be blocked stay blocked until it returns. A fault during a rollforward is reported at
//! the sequence's own instruction. If the handler changes the program counter, the sequence is left
//! there, and the signal that waited for its end is delivered.
//!
//! # Stack overflows
//!
//! The standard library reports an overflow of a thread's stack by handlers of `SIGSEGV` and
//! `SIGBUS` on an alternate stack (with musl, not one of the main thread's). A handler that is
//! installed here for one of these **replaces** that report: it runs on the thread's own stack,
//! which has no room left, so the process ends by the signal without a word. To keep the report,
//! give each thread an [`AlternateStack`], install the handler [on the alternate
//! stack](Options::on_alternate_stack), and [chain](Event::chain). A thread without a guard of its
//! own may end the process without a word, since [`install_with`] checks only the stack of the
//! thread that calls it:
//!
//! ```no_run
//! use atomseq::signal::{self, AlternateStack, Options};
//!
//! fn crash(event: &mut signal::Event<'_>) {
//!     // Report here, by `write` alone.
//!     if event.interrupted() != signal::Interrupted::Inside {
//!         // Only here use structures of `local`: no sequence of theirs has faulted.
//!     }
//!     // Then an overflow is reported by the standard library, and any other fault ends the process
//!     // by its signal.
//!     if event.chain() != signal::Chained::Called {
//!         event.default_action();
//!     }
//! }
//!
//! # #[cfg(unix)] {
//! let _stack = AlternateStack::new(16 << 10)?;
//! // SAFETY: the handler neither allocates, nor locks, nor panics.
//! unsafe {
//!     signal::install_with(libc::SIGSEGV, crash, Options::new().on_alternate_stack(16 << 10))?;
//! }
//! std::thread::spawn(|| {
//!     let _stack = AlternateStack::new(16 << 10)?; // on each thread
//!     // The thread's work.
//!     Ok::<(), signal::Error>(())
//! });
//! # }
//! # Ok::<(), signal::Error>(())
//! ```
//!
//! # Limits
//!
//! * A deferred real-time signal is queued again, behind those of its number that arrived
//!   meanwhile.
//! * A deferred process-directed signal becomes thread-directed. If that thread exits without
//!   ending its masks (because a guard was forgotten), the signal is lost.
//! * Standard signals that are deferred while the user's queue (`RLIMIT_SIGPENDING`) is full can
//!   lose their record. Of two of one number, the later one's record may replace the earlier one's.
//! * A handler that uses masks, or shares data with the thread, must be installed here.
//! * Inside a mask, change the kernel's mask only through this module: `pthread_sigmask` would
//!   unblock what was deferred, or block what the end of the mask unblocks. Calls that wait for
//!   signals need [`with_kernel_mask`].
//! * A thread or a program that is started inside a mask inherits deferred signals as blocked: see
//!   [`inheriting`], [`give_own_mask`] and [`own_mask`]. The child of a fork needs nothing. Leave
//!   masks before an `exec` without a fork.
//! * The child of a fork inside a mask is inside it too, without its parent's waiting signals. Do
//!   not use this module in the child of a `vfork`.
//! * Handlers live as long as the process: do not unload an object that contains one ([which stay
//!   loaded](crate::docs::limitations#dlclose)).
//! * Two copies of atomseq in a process (in two `cdylib`s, say) protect each other's sequences. A
//!   mask of one holds back only its own handlers, and signals that are [never held
//!   back](#signals-that-are-never-held-back) may arrive in the middle of the other's delivery.
//!
//! [`docs::limitations`](crate::docs::limitations#signal-handlers-and-masks) has rarer ones.
//!
//! # Other systems
//!
//! On other unixes, and with `--cfg atomseq_portable`, the interface is the same. Masks are the
//! kernel's (two system calls for the outermost one). Sequences run with all signals blocked, so
//! every handler runs between them. On systems without signals, and under Miri, [`install`] returns
//! [`Error::Unsupported`] and no handler runs inside a mask, because none runs at all.

#[cfg(atomseq_sections)]
mod delivery;
#[cfg(atomseq_sections)]
use delivery as runtime;

#[cfg(not(atomseq_sections))]
mod portable;
#[cfg(not(atomseq_sections))]
use portable as runtime;

mod audit;
mod event;
mod mask;
mod options;
#[cfg(unix)]
mod stack;
mod statistics;

pub use audit::{Audit, Fault, Finding};
pub use event::{Chained, Event, Handler, Interrupted};
pub use mask::{Masked, is_masked, mask, with_kernel_mask};
#[cfg(unix)]
pub use mask::{give_own_mask, inheriting, own_mask};
pub use options::{Error, Options};
#[cfg(unix)]
pub use runtime::siglongjmp;
pub use runtime::{abandon_rollforward, original_pc, set_rollforward_limit};
#[cfg(unix)]
pub use stack::AlternateStack;
pub use statistics::{Statistics, statistics};

#[cfg(all(atomseq_sections, feature = "unstable-internals"))]
pub(crate) use delivery::{controls, is_raised_by_fault, is_unmaskable};

/// Installs a handler for a signal, with the default [`Options`]. See [`install_with`].
///
/// # Errors
///
/// As [`install_with`].
///
/// # Safety
///
/// As [`install_with`].
pub unsafe fn install(signal: i32, handler: Handler) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe { install_with(signal, handler, Options::new()) }
}

/// Installs a handler for a signal, which is managed from then on.
///
/// If the current handler was installed here, the new one takes its place:
/// [chaining](Event::chain) leads to what was there before that one. A current handler of other
/// code remains reachable by chaining, also if it was installed over one of atomseq's. That one of
/// atomseq's is not called any more. For `SIGSEGV` and `SIGBUS`, the standard library's report of a
/// [stack overflow](crate::signal#stack-overflows) goes with its handler, unless chained.
///
/// The first call [starts atomseq up](crate::status()), so that no handler has to. Sequences of
/// objects that were loaded since the last installation are protected from now on.
///
/// Takes a lock. Each call takes about 128 bytes of memory, which the process keeps, because a
/// thread may be running the handler when it is removed or replaced. Costs about 90 system calls,
/// since it examines the handlers of all signals, and four more for each handler that it changes.
/// Not async-signal-safe.
///
/// # Errors
///
/// [`Error::NoSignal`], [`Error::Reserved`], [`Error::AlternateStackTooSmall`], [`Error::Refused`],
/// and [`Error::Unsupported`] on systems without signals.
///
/// # Safety
///
/// The handler may run between any two instructions of any thread, except in the middle of a
/// sequence and inside a mask. It must do only what is sound there: it must not allocate, lock, use
/// the standard library's input and output, or touch a thread-local that is set up on first use.
/// The compiler cannot check this, so the function is unsafe.
///
/// Must not be called in a handler.
pub unsafe fn install_with(signal: i32, handler: Handler, options: Options) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe { runtime::install(signal, handler, options) }
}

/// Removes a handler that was installed here, and restores what [chaining](Event::chain) leads to.
///
/// A handler of other code keeps, or gets, the wider mask that covers the signals that are still
/// managed. Atomseq's handlers of other signals no longer hold this signal back. A waiting signal
/// is handled by what is restored. Deliveries that have begun on other threads end normally. If
/// other code puts atomseq's disposition back later, signals go to what was restored here, and
/// [`audit()`] reports it.
///
/// If a handler for [one signal](Options::once) is used up, this removes its entry and returns
/// [`Error::NotInstalled`].
///
/// Must not be called in a handler.
///
/// # Errors
///
/// [`Error::NoSignal`] and [`Error::Reserved`]. [`Error::NotInstalled`] if the signal has no
/// handler here. [`Error::Displaced`] if other code has installed a handler since: that handler may
/// call atomseq's, and what it would restore is not known. [`Error::Refused`] if the kernel
/// refuses, and [`Error::Unsupported`] on systems without signals.
pub fn uninstall(signal: i32) -> Result<(), Error> {
    runtime::uninstall(signal)
}

/// Returns whether a signal has a handler that was installed here. Async-signal-safe.
pub fn is_managed(signal: i32) -> bool {
    runtime::is_managed(signal)
}

/// Examines the handlers of all signals, and reports those that do not protect sequences.
///
/// While there is a finding, `restarting` and `rolling` sequences are not atomic against the
/// signals concerned. Also reports sequences that are [not protected](Audit::unprotected), and
/// registers the sequences of objects that were loaded meanwhile. Costs about 80 system calls. Must
/// not be called in a handler.
///
/// # Panics
///
/// If there is no memory for the table of sequences.
///
/// ```
/// let audit = atomseq::signal::audit();
/// assert!(audit.is_clean(), "{audit}");
/// ```
#[track_caller]
pub fn audit() -> Audit {
    runtime::audit()
}

/// Repairs what an [`audit()`] finds where possible, and returns what is left.
///
/// A handler that there is no memory to adopt remains a finding. Costs about 140 system calls, and
/// some for each repair. Must not be called in a handler.
///
/// # Panics
///
/// If there is no memory for the table of sequences.
#[track_caller]
pub fn repair() -> Audit {
    runtime::repair()
}
