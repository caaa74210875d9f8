//! One delivery of a signal, as its handler sees it.

use core::ffi::c_void;

use super::runtime::Previous;

/// A handler. It captures nothing: what it works on, it reaches through statics or thread-local
/// storage.
pub type Handler = fn(&mut Event<'_>);

/// The kernel's record of a signal.
#[cfg(unix)]
type Record = libc::siginfo_t;
/// Systems without signals have none, and so no event.
#[cfg(not(unix))]
type Record = core::convert::Infallible;

/// One delivery of a signal: what a handler with `SA_SIGINFO` gets as three arguments, and what
/// atomseq knows of it.
pub struct Event<'a> {
    pub(super) signal: i32,
    pub(super) info: &'a Record,
    pub(super) context: *mut c_void,
    pub(super) program_counter: usize,
    pub(super) original_pc: usize,
    pub(super) interrupted: Interrupted,
    pub(super) previous: &'a Previous,
}

/// What a signal interrupted, and so what was done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Interrupted {
    /// No sequence.
    Plain,
    /// A `restarting` sequence, which will start again at its top.
    Restarted,
    /// A `rolling` sequence, which was run to its end before.
    RolledForward,
    /// A `rolling` sequence that could not be run to its end, or a sequence that has a fault; or a
    /// handler that was told the same. The sequence is **not** atomic against this handler, which
    /// must leave alone what it shares with the thread.
    Inside,
}

/// What [`Event::chain`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chained {
    /// A handler, and called it.
    Called,
    /// The default action.
    Default,
    /// That the signal was ignored.
    Ignored,
}

impl Event<'_> {
    /// The signal's number.
    pub fn signal(&self) -> i32 {
        self.signal
    }

    /// The kernel's record of the signal.
    #[cfg(unix)]
    pub fn info(&self) -> &libc::siginfo_t {
        self.info
    }

    /// The value that came with the signal, from `sigqueue` or a timer; without one, nothing
    /// useful.
    #[cfg(target_os = "linux")]
    pub fn value(&self) -> usize {
        // SAFETY: a word inside every record, of a type for which every pattern of bits is valid.
        unsafe { self.info.si_value().sival_ptr as usize }
    }

    /// How many expirations of a POSIX timer this signal stands for, beside its own; 0 when no
    /// timer sent it.
    ///
    /// A [`mask()`](super::mask()) loses none of them, unless
    /// [`with_kernel_mask`](super::with_kernel_mask) finds the user's queue full
    /// (`RLIMIT_SIGPENDING`). With a handler [on the alternate
    /// stack](super::Options::on_alternate_stack) it does, if the timer's signal is a standard one,
    /// goes to a thread (`SIGEV_THREAD_ID`), and the timer expires again while it is deferred: use
    /// a real-time signal there.
    #[cfg(target_os = "linux")]
    pub fn overrun(&self) -> i32 {
        if self.info.si_code != libc::SI_TIMER {
            return 0;
        }
        // SAFETY: a timer's record holds its number and then the overruns, right after the three
        // words that all records start with and, on 64-bit systems, a fourth that is unused.
        unsafe {
            (&raw const *self.info)
                .cast::<i32>()
                .add(if cfg!(target_pointer_width = "64") {
                    5
                } else {
                    4
                })
                .read()
        }
    }

    /// The instruction at which the thread goes on after the handler; 0 where the system does not
    /// tell.
    pub fn program_counter(&self) -> usize {
        self.program_counter
    }

    /// The instruction at which the signal found the thread: for profilers. It differs from
    /// [`program_counter`](Event::program_counter) if that was in a sequence. 0 where the system
    /// does not tell.
    pub fn original_pc(&self) -> usize {
        self.original_pc
    }

    /// What the signal interrupted.
    pub fn interrupted(&self) -> Interrupted {
        self.interrupted
    }

    /// The interrupted thread's context, a `ucontext_t`. What the handler changes there takes
    /// effect when it returns; writing to it is as unsafe as that.
    pub fn context(&self) -> *mut c_void {
        self.context
    }

    /// Calls the handler that was there when this one was installed, if there was one, with the
    /// signals blocked that it asked for. The default action is not carried out.
    pub fn chain(&mut self) -> Chained {
        // SAFETY: this runs in a handler, on the thread and with the record and the context that
        // the kernel gave it.
        unsafe { self.previous.call(self.signal, self.info, self.context) }
    }
}

impl std::fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Event")
            .field("signal", &self.signal)
            .field("original_pc", &format_args!("{:#x}", self.original_pc))
            .field("interrupted", &self.interrupted)
            .finish_non_exhaustive()
    }
}
