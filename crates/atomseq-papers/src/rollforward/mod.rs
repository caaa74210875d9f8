//! M94's schemes of rollforward, beside the one that atomseq ships: four ways to find that a
//! handler has interrupted a sequence, and four ways to regain control when the sequence has run to
//! its end.
//!
//! [`sequence!`](crate::sequence) compiles a sequence as `atomseq::sequence!` does, and adds to one
//! that has the form `rolling` the function `by`, whose type parameter is the scheme. Such a
//! sequence must leave three registers to the schemes. All schemes have that one interface (M94 6),
//! so a structure can be written once and run by each. [`install`] installs the handlers that the
//! sequences are atomic against.
//!
//! | scheme | M94 | registration | control comes back by | instructions added | a sequence may not |
//! |---|---|---|---|---|---|
//! | [`DynJump`] | 3.1 | dynamic: a word of the thread | a computed jump (2.2.3) | 4, with two stores | use r11 |
//! | [`DynFault`] | 3.2 | dynamic: a word of the thread | a controlled fault (2.2.4) | 5, with two loads and two stores | continue behind its end |
//! | [`HybJump`] | 3.3 | hybrid: a register, as a hint | a computed jump (2.2.3) | 2, without memory | use r11, branch backwards, call, or have more than 1,024 bytes |
//! | [`Designated`] | 2.1.1 | none: the code is recognized | code rewriting (2.2.1) | 1, which does nothing; on AArch64 2 | branch backwards, call, or have more than 1,024 bytes |
//! | `rolling`, the one of `atomseq::sequence!` | 2.1.2 | static: a table | a clone (2.2.2) | 0 | branch backwards or call |
//!
//! The numbers are counted in the template; in addition the two dynamic schemes need the address of
//! the thread's words in a register. The language of sequences rules out what they may not do. On
//! AArch64 the register is x17.
//!
//! ```
//! # #[cfg(atomseq_sections)] {
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! use atomseq::signal::Event;
//! use atomseq_papers::rollforward::{self, DynJump, HybJump};
//!
//! static WORDS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
//!
//! atomseq_papers::sequence! {
//!     /// Adds to two words.
//!     unsafe fn add_both(words: Word, amount: Word) {
//!         store(words, load(words) + amount);
//!         store(words + 8, load(words + 8) + amount);
//!     }
//! }
//!
//! fn compare(_: &mut Event<'_>) {
//!     let [one, other] = WORDS.each_ref().map(|word| word.load(Ordering::Relaxed));
//!     assert_eq!(one, other, "no handler sees one of the two stores");
//! }
//!
//! // SAFETY: the handler only reads words.
//! unsafe { rollforward::install(libc::SIGUSR1, 0, compare) }?;
//! let words = WORDS.as_ptr().addr();
//! // SAFETY: two words that live, which this thread alone changes.
//! unsafe {
//!     add_both::by::<DynJump>(words, 1);
//!     add_both::by::<HybJump>(words, 1);
//! }
//! assert_eq!(WORDS[1].load(Ordering::Relaxed), 2);
//! # }
//! # Ok::<(), atomseq_papers::rollforward::Error>(())
//! ```
//!
//! # Priority levels
//!
//! Each signal has a level, the second argument of [`install`], and so has each sequence of a
//! scheme that jumps: a parameter of [`DynJump`] and [`HybJump`], a number in the code between the
//! jump and the end (M94 3.3). A handler of a level that is not higher than the sequence's waits
//! for the end of the sequence. A handler of a higher level runs at once, so the sequence is not
//! atomic against it. A level costs no instruction. While a handler runs, signals of its level and
//! below are blocked, and those above it are not. Signals that [`install`] has not installed are
//! blocked as well, since another thread may install one meanwhile. A signal keeps its level when
//! [`signal::uninstall`] removes its handler: one that `atomseq::signal` installs for it later also
//! interrupts handlers of lower levels.
//!
//! # How a rollforward runs
//!
//! The handler continues the interrupted sequence itself, with the thread's registers and on its
//! own stack, which no sequence uses. All signals are blocked except `SIGABRT`, those of faults,
//! and those of the C library.
//!
//! ```text
//! thread    a b │                                                     │ after …
//!               │ signal                                              │
//! handler       └─ what was interrupted? ─ arm ─> c d e (the code itself) ─> back ─> the user's handler ┘
//! ```
//!
//! | scheme | arm | back |
//! |---|---|---|
//! | the two that jump | the register holds the address of `back` | the sequence jumps there |
//! | `DynFault` | the pointer that the end dereferences is one that faults | the handler of `SIGSEGV` goes there |
//! | `Designated` | a trap stands over the landmark | the handler of `SIGTRAP` goes there |
//!
//! M94 2.3.1 asks for an inspection before code is rolled forward that may not be a sequence. So
//! `HybJump` and `Designated` decode the code from the interrupted instruction to the end, and roll
//! it forward only if it consists of instructions that the compiler writes, branches forward and
//! stays before the end, and for `HybJump` does not use the register ([`is_safe`]).
//!
//! # Rewriting
//!
//! The trap is visible to every thread of the process. A thread that executes it while another
//! one's sequence is rolled forward takes a `SIGTRAP`, whose handler continues behind the landmark:
//! the landmark does nothing, so skipping it is right whether the trap still stands or not. One
//! thread of a process rewrites at a time; others wait for it in their handlers. M94 requires that
//! the code is in a writable segment; here a page of code is writable only while a trap stands in
//! it, which takes two system calls a rollforward. A fork copies the trap that stands meanwhile. In
//! the child it is removed by the first thread that executes it or rewrites. If the fork came just
//! before or after the trap, only the page is left writable, until a thread of the child rewrites.
//!
//! # Limits
//!
//! * Only handlers that [`install`] installed wait. Those of `atomseq::signal` do not know these
//!   schemes, and M94's schemes know no other handlers either. A second copy of this crate in the
//!   process counts as other code, and must install no handlers while this one's run.
//! * An event reports what was interrupted before the rollforward, and as no sequence.
//! * The handlers of `SIGSEGV` and `SIGTRAP` are taken. Faults of other causes are passed on to the
//!   handlers of other code from before; handlers of `atomseq::signal` are replaced, and none may
//!   replace or remove these later. One that other code installs over them must call them.
//! * A handler reads the code that it has interrupted, so no code may be execute-only. A breakpoint
//!   in a sequence of `HybJump` or `Designated` hides it: no handler waits for it.
//! * A thread that runs designated sequences must not block `SIGTRAP`: the trap of another thread's
//!   rollforward would end the process.
//! * A handler that [`install`] did not install must block the signals of those that it did, if it
//!   may interrupt a sequence of a dynamic scheme. `atomseq::signal` sees to that, except for
//!   handlers that [nest](signal::Options::nesting), those of other code that come later, and
//!   signals that are installed while the handler runs. The thread's word says that it is inside a
//!   sequence, so a handler that interrupts such a handler would take that one's code for the
//!   sequence. The same holds for the handler of a fault in such a sequence: so install all
//!   handlers before threads run sequences of a dynamic scheme.
//! * `SIGABRT` and the signals of faults (`SIGBUS`, `SIGFPE`, `SIGILL`, `SIGSYS`) do not wait, not
//!   even if they are sent: nothing holds them back, so they also arrive in the middle of a
//!   rollforward. A handler that [`install`] installed for one runs at once. It may see a sequence
//!   half done, and the signals of higher levels wait, too. A handler of such a signal that
//!   [`install`] did not install must run neither sequences of a dynamic scheme nor designated
//!   ones: in the middle of a sequence or a rollforward they would use its words. The same holds
//!   for a handler of `SIGSEGV` or `SIGTRAP` that other code installs later.
//! * A handler of such a signal must not jump out of the rollforward, fork in the middle of it, or
//!   wait for another thread's rollforward of a designated sequence. To jump out of a sequence of a
//!   dynamic scheme that is not rolled forward, it must be a handler of `SIGSEGV` or `SIGTRAP`, or
//!   one that [`install`] installed: otherwise the thread's word still says that it is inside.
//! * A repeated fault is not given up: these rollforwards have no
//!   [limit](signal::set_rollforward_limit).
//! * If the kernel forbids writable code after [`install`] has found it allowed, or has no memory
//!   for it, the next rollforward of a designated sequence aborts the process.
//! * A page fault inside a sequence is transparent, since all that waits are this thread's handlers
//!   (M94 2.3.2). But a thread that brings in pages for others (`userfaultfd`) must run no
//!   designated sequences: its handler could wait for a rollforward that waits for the page.
//! * On systems without sections the steps run in Rust with all signals blocked, and [`install`]
//!   returns [`Error::Unsupported`].

use std::fmt;

use atomseq::signal::{self, Handler};

#[cfg(atomseq_sections)]
mod code;
#[cfg(atomseq_sections)]
mod delivery;
#[cfg(atomseq_sections)]
mod rewriting;

#[cfg(atomseq_sections)]
pub use code::is_safe;
#[cfg(atomseq_sections)]
pub(crate) use delivery::Outside;
#[cfg(atomseq_sections)]
#[doc(hidden)]
pub use delivery::words;

/// Which scheme a type stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// [`struct@DynJump`].
    DynJump,
    /// [`struct@DynFault`].
    DynFault,
    /// [`struct@HybJump`].
    HybJump,
    /// [`struct@Designated`].
    Designated,
}

/// A scheme that a sequence runs by.
pub trait Scheme: sealed::Sealed {
    /// Which scheme it is.
    const KIND: Kind;
    /// The level of the sequence: handlers of signals of a higher level do not wait.
    const LEVEL: u32;
}

mod sealed {
    pub trait Sealed {}
}

/// The level of a sequence that every handler waits for.
pub const HIGHEST: u32 = u32::MAX;

/// Dynamic registration with a jump (M94 3.1). The thread sets a word before the sequence and
/// resets it after it, so a handler that reads the word knows without doubt. Nothing is inspected.
#[derive(Clone, Copy, Debug, Default)]
pub struct DynJump<const LEVEL: u32 = HIGHEST>;

/// Dynamic registration with a fault (M94 3.2). M94 makes the fault by a misaligned access, which
/// x86-64 and AArch64 tolerate; here it is an access to an address that no process can map.
#[derive(Clone, Copy, Debug, Default)]
pub struct DynFault;

/// Hybrid registration with a jump (M94 3.3). A register holds the end of the last sequence that
/// the thread has begun, and may be stale: so the code is inspected before it is rolled forward.
#[derive(Clone, Copy, Debug, Default)]
pub struct HybJump<const LEVEL: u32 = HIGHEST>;

/// Designated sequences (M94 2.1.1) with code rewriting (M94 2.2.1). A handler decodes the code
/// from the interrupted instruction on until it finds a landmark that no compiler writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Designated;

macro_rules! schemes {
    ($($scheme:ty: $kind:ident, $level:expr, [$($parameter:tt)*];)*) => {
        $(
            impl<$($parameter)*> sealed::Sealed for $scheme {}
            impl<$($parameter)*> Scheme for $scheme {
                const KIND: Kind = Kind::$kind;
                const LEVEL: u32 = $level;
            }
        )*
    };
}

schemes! {
    DynJump<L>: DynJump, L, [const L: u32];
    DynFault: DynFault, HIGHEST, [];
    HybJump<L>: HybJump, L, [const L: u32];
    Designated: Designated, HIGHEST, [];
}

/// Installs a handler that waits for the end of an interrupted sequence of any of the schemes. A
/// signal's level counts against that of a sequence, see [Priority levels](self#priority-levels).
///
/// `SIGABRT` and the signals of faults do not wait, see [Limits](self#limits).
///
/// The first call also installs the handlers of `SIGSEGV` and `SIGTRAP`. Takes a lock and memory;
/// not async-signal-safe. [`signal::uninstall`] removes the handler.
///
/// # Errors
///
/// [`Error::Handler`] if `atomseq::signal` refuses a handler, and for `SIGSEGV` and `SIGTRAP`;
/// [`Error::CodeNotWritable`] if the system does not let code be rewritten;
/// [`Error::Unsupported`] on systems without sections. An earlier handler of the signal then stays,
/// with its level; deliveries during the call may have run the new one.
///
/// # Safety
///
/// As [`signal::install_with`]. If the signal is not managed yet, no other thread may run the
/// handler of a fault, or one that this function did not install, that has interrupted a sequence
/// of a dynamic scheme, see [Limits](self#limits).
pub unsafe fn install(signal: i32, level: u32, handler: Handler) -> Result<(), Error> {
    #[cfg(atomseq_sections)]
    // SAFETY: the caller's promise.
    return unsafe { delivery::install(signal, level, handler) };
    #[cfg(not(atomseq_sections))]
    {
        let _ = (signal, level, handler);
        Err(Error::Unsupported)
    }
}

/// The reason why a handler was not installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The system has no sections.
    Unsupported,
    /// A handler was refused.
    Handler(signal::Error),
    /// The kernel refused to make code writable.
    CodeNotWritable {
        /// The error number.
        errno: i32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unsupported => f.write_str(
                "M94's schemes need Linux on x86-64 or AArch64, and no --cfg atomseq_portable",
            ),
            Error::Handler(error) => write!(f, "the handler was not installed: {error}"),
            Error::CodeNotWritable { errno } => write!(
                f,
                "code cannot be rewritten: {}; look for a policy that forbids writable code",
                std::io::Error::from_raw_os_error(*errno)
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Handler(error) => Some(error),
            _ => None,
        }
    }
}
