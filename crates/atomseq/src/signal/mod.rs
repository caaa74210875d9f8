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
//! assert_eq!(SEEN.load(Ordering::Relaxed), 0); // it waits
//! drop(masked);
//! assert_eq!(SEEN.load(Ordering::Relaxed), 1); // it was delivered
//! # }
//! # Ok::<(), signal::Error>(())
//! ```
//!
//! # What a handler may rely on
//!
//! A signal with a handler installed here is **managed**. On the thread that it interrupts, its
//! handler runs either before or after, never in the middle of, every `restarting` and `rolling`
//! form of a [`sequence!`](crate::sequence!) (scope `SameThread`):
//!
//! * a `restarting` sequence is started again at its top (B91 3.2);
//! * a `rolling` sequence is first run to its end, in a clone of it that the delivery runs (M94
//!   2.2.2);
//! * in a [`mask()`], the signal waits until the outermost one ends.
//!
//! Neither adds an instruction to the sequence. A delivery costs what the kernel takes for it, a
//! look-up and two system calls; a restart or a rollforward next to nothing more; one that a mask
//! deferred two deliveries and four system calls beside them.
//!
//! Every handler of someone else's is made to block the managed signals while it runs: otherwise
//! one could interrupt it over a half-done sequence. (One that is already running when [`install`]
//! or [`repair()`] is called lets newly managed signals in until it returns.) [`audit()`] reports
//! handlers that were installed later, and [`repair()`] does the same to them. The C library
//! installs two of its own late, with the first thread and the first `pthread_cancel`; [`install`],
//! [`audit()`] and [`repair()`] cover those without a finding.
//!
//! # Dispositions that others save and put back
//!
//! A handler that is installed over atomseq's may pass signals on to it. What other code reads
//! while atomseq's handler is installed, and puts back or passes signals on to later, stands for
//! that handler; once it was [uninstalled](uninstall), for what was there before it; and once a
//! handler of [one signal](Options::once) is used up, for the default action. A handler that others
//! have installed over atomseq's is never removed by atomseq.
//!
//! # Deferred signals
//!
//! The kernel gets a deferred signal back, blocked, with its record, and delivers it a second time
//! when the mask ends. There are four exceptions, in which the thread keeps the signal and calls
//! the handler itself at that point:
//!
//! * `SIGCONT`, `SIGTSTP`, `SIGTTIN` and `SIGTTOU`: sending one of them discards others that are
//!   pending. One that is kept is discarded as if it were pending, when it is pending itself or a
//!   later one of the opposite kind is.
//! * A real-time signal for whose record the user's queue (`RLIMIT_SIGPENDING`) has no room.
//! * A standard signal of a POSIX timer, and a real-time signal of `kill`. The kernel would count
//!   such a signal, when it gets it back, and another one of its number as one: the timer's if it
//!   has expired again, that of `kill` if the queue is full.
//! * Signals that the kernel takes neither by `rt_tgsigqueueinfo` nor by `tgkill`, because a
//!   sandbox refuses them.
//!
//! Such a handler runs on the thread's own stack, with an [`Event::context()`] that holds the place
//! where the mask ended: program counter, stack and frame pointer, and the mask. Only changes to
//! the mask take effect. But for such a sandbox, a handler that asks for the [alternate
//! stack](Options::on_alternate_stack) gets its signal from the kernel, and what the other three
//! exceptions are for [may be lost](crate::docs::limitations#signal-handlers-and-masks).
//! [`Statistics::kept`] and [`Statistics::refused`] count them.
//!
//! # What a handler may do
//!
//! It runs between two instructions of any code, so it must do only what is async-signal-safe. Of
//! this crate that is: sequences, [`mask()`], [`statistics()`], [`original_pc`], the structures in
//! [`local`](crate::local), those in [`percpu`](crate::percpu) once they were built. Installing,
//! removing and auditing is not. `errno` is saved and restored around it. A panic in a handler
//! aborts the process with a message: nothing could unwind through what was interrupted. (The
//! message of the panic itself comes from the standard library, which takes a lock for it.) With
//! glibc, `pthread_exit` and cancellation unwind as well.
//!
//! All managed signals are blocked while a handler runs, unless [`Options`] say otherwise. Until it
//! is decided how the interrupted sequence goes on, and while a handler runs
//! [inside](Interrupted::Inside) one, all signals are blocked that can be: those of others, too, so
//! that their handlers may leave by `siglongjmp`.
//!
//! # Signals that are never held back
//!
//! `SIGSEGV`, `SIGBUS`, `SIGFPE`, `SIGILL`, `SIGTRAP` and `SIGSYS`, which faults raise, and
//! `SIGABRT` are never blocked by this module, so a mask does not hold them back, even when another
//! process sends them. The C library's 32 and 33 are blocked only until a delivery has decided, and
//! while a thread holds a [gate](crate::percpu::GateGuard), when all are; `SIGABRT` also while
//! [`install`], [`uninstall`], [`audit()`] or [`repair`] changes handlers. Handlers of others for
//! the first seven are called by way of this module.
//!
//! One that is sent finds sequences as any managed signal does. If it interrupts another signal's
//! delivery, it waits until the sequence that this one has interrupted is whole, and its handler
//! then runs first.
//!
//! One that an instruction raises, a fault, passes straight through: its handler runs in the middle
//! of the sequence that has the fault ([`Interrupted::Inside`]), which is atomic only as long as it
//! has none (M94 2.3.2). Handlers that interrupt that handler are told the same. Managed signals
//! that can be blocked are, until it returns. A fault during a rollforward is reported where the
//! sequence itself would have had it. If the handler changes the program counter, the sequence is
//! left there, and the signal that waited for its end is delivered.
//!
//! # Limits
//!
//! * Queued real-time signals of one number may change their order when a mask puts them off.
//! * A signal sent to the process becomes the thread's that deferred it; if that exits without
//!   ending its masks (it forgot a guard), the signal is lost.
//! * Standard signals that are deferred while the user's queue (`RLIMIT_SIGPENDING`) is full can
//!   lose their record. Of two of one number, the record of the later one may come instead of the
//!   earlier one's.
//! * A handler that has masks itself, or shares data with the thread, must be installed here.
//! * Inside a mask, change the kernel's mask only through this module. Calls that wait for signals
//!   need [`with_kernel_mask`].
//! * A thread or a program started inside a mask inherits what was deferred as blocked: see
//!   [`inheriting`], [`give_own_mask`] and [`own_mask`]. The child of a fork needs nothing. Leave
//!   masks before an `exec` without a fork.
//! * The child of a fork inside a mask is inside it too, without its parent's waiting signals. Do
//!   not use this module in the child of a `vfork`.
//! * Handlers live as long as the process: an object that holds one must not be unloaded. Two
//!   copies of atomseq in a process (in two `cdylib`s, say) protect each other's sequences, but a
//!   mask of one holds back only its handlers, and signals that are [never held
//!   back](#signals-that-are-never-held-back) may come in the middle of the other's delivery.
//!
//! # Other systems
//!
//! On other unixes, and with `--cfg atomseq_portable`, the interface is the same: masks are the
//! kernel's (two system calls for the outermost one), sequences run with all signals blocked, and
//! so every handler runs between them. On systems without signals, [`install`] returns
//! [`Error::Unsupported`] and a mask costs nothing.

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
pub use statistics::{Statistics, statistics};

#[cfg(all(atomseq_sections, feature = "unstable-internals"))]
pub(crate) use delivery::controls;

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
/// A handler that was installed here before is replaced; one of someone else's can be
/// [chained](Event::chain) to. Takes a lock and memory, and about 80 system calls, since it looks
/// at the handlers of all signals, and four more for each that it changes. Objects that were loaded
/// since the last installation have their sequences protected from now on. The first call [starts
/// atomseq up](crate::status()), so that no handler that is installed here does.
///
/// # Errors
///
/// [`Error::NoSignal`], [`Error::Reserved`], [`Error::AlternateStackTooSmall`], [`Error::Refused`],
/// and [`Error::Unsupported`] on systems without signals.
///
/// # Safety
///
/// The handler may run between any two instructions of any thread, but for the middle of a sequence
/// and inside a mask. It does only what is sound there: nothing that allocates, locks, uses the
/// standard library's input and output, or a thread-local that is set up on first use. That is why
/// this is not a safe function: any closure could do these things.
///
/// Not to be called in a handler.
pub unsafe fn install_with(signal: i32, handler: Handler, options: Options) -> Result<(), Error> {
    // SAFETY: the caller's promise.
    unsafe { runtime::install(signal, handler, options) }
}

/// Removes a handler that was installed here: what was there before the first one is restored.
///
/// A handler of someone else's keeps, or gets, the wider mask that covers what is still managed.
/// Those of atomseq hold the signal back no longer; until they are installed again, each delivery
/// to them takes one more system call for that. A signal that waits is handled by what is restored.
/// Deliveries that have begun on other threads end as they would. If other code puts atomseq's
/// disposition back later, signals go to what was restored here, and [`audit()`] reports it. Not to
/// be called in a handler.
///
/// # Errors
///
/// [`Error::NotInstalled`]. [`Error::Displaced`] if someone else has installed a handler since:
/// that one may call atomseq's, and what it would restore is not known here.
pub fn uninstall(signal: i32) -> Result<(), Error> {
    runtime::uninstall(signal)
}

/// Has this signal a handler that was installed here? Async-signal-safe.
pub fn is_managed(signal: i32) -> bool {
    runtime::is_managed(signal)
}

/// Looks at the handlers of all signals, and reports which are not as they have to be. While there
/// is one, `restarting` and `rolling` sequences are not atomic against the signals concerned.
///
/// Also reports sequences that are [not protected](Audit::unprotected), and makes the sequences of
/// objects known that were loaded meanwhile. About 70 system calls; not for handlers.
///
/// # Panics
///
/// If there is no memory for the table of sequences.
///
/// ```
/// let audit = atomseq::signal::audit();
/// assert!(audit.is_clean(), "{audit}");
/// ```
pub fn audit() -> Audit {
    runtime::audit()
}

/// Repairs what an [`audit()`] finds, as far as that can be done, and returns what is left. About
/// 130 system calls, and some for each repair; not for handlers. A handler that there is no memory
/// to adopt is left.
///
/// # Panics
///
/// As [`audit()`].
pub fn repair() -> Audit {
    runtime::repair()
}
