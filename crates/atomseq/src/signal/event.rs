//! One delivery of a signal, as its handler sees it.

use core::ffi::c_void;

use super::runtime::Previous;

/// A signal handler: a plain function, which reaches its data through statics or thread-local
/// storage.
pub type Handler = fn(&mut Event<'_>);

/// The kernel's record of a signal.
#[cfg(unix)]
type Record = libc::siginfo_t;
/// Systems without signals have none, and so no event.
#[cfg(not(unix))]
type Record = core::convert::Infallible;

/// One delivery of a signal: the three arguments of a handler with `SA_SIGINFO`, and what atomseq
/// knows about the interrupted code.
pub struct Event<'a> {
    pub(super) signal: i32,
    pub(super) info: &'a Record,
    pub(super) context: *mut c_void,
    pub(super) program_counter: usize,
    pub(super) original_pc: usize,
    pub(super) interrupted: Interrupted,
    pub(super) previous: &'a Previous,
}

/// What a signal interrupted, and how the interrupted code continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Interrupted {
    /// No sequence.
    Plain,
    /// A `restarting` sequence, which will restart at its first instruction.
    Restarted,
    /// A `rolling` sequence, which was run to its end before the handler.
    RolledForward,
    /// The middle of a sequence: a `rolling` one that could not be run to its end, or one whose
    /// instruction faulted; or a handler that reports the same. The sequence is **not** atomic
    /// against this handler, which must not touch what it shares with the thread.
    Inside,
}

/// The outcome of [`Event::chain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chained {
    /// There was a handler, and it was called.
    Called,
    /// There was the default action, which was not carried out.
    Default,
    /// The signal was ignored.
    Ignored,
}

impl Event<'_> {
    /// Returns the signal's number.
    pub fn signal(&self) -> i32 {
        self.signal
    }

    /// Returns the kernel's record of the signal.
    #[cfg(unix)]
    pub fn info(&self) -> &libc::siginfo_t {
        self.info
    }

    /// Returns the address of the data whose access raised this `SIGSEGV` or `SIGBUS`; `None` if a
    /// process sent the signal, if no access of this thread has raised it, if the kernel does not
    /// know the address (on x86-64, of an address that is not canonical, or not aligned where the
    /// thread has alignment checked), and for other signals.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// use atomseq::signal::{self, Event};
    ///
    /// static PAGE: AtomicUsize = AtomicUsize::new(0);
    ///
    /// fn open(event: &mut Event<'_>) {
    ///     let page = PAGE.load(Ordering::Relaxed);
    ///     match event.fault_address() {
    ///         Some(address) if address == page + 8 => {
    ///             // SAFETY: the page that is mapped below.
    ///             unsafe { libc::mprotect(page as *mut _, 4096, libc::PROT_READ) };
    ///         }
    ///         _ => event.default_action(),
    ///     }
    /// }
    ///
    /// # #[cfg(not(miri))]
    /// // SAFETY: a fresh mapping; the handler neither allocates, nor locks, nor panics.
    /// unsafe {
    ///     let (protection, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    ///     let page = libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0);
    ///     PAGE.store(page as usize, Ordering::Relaxed);
    ///     signal::install(libc::SIGSEGV, open)?;
    ///     // The handler makes the page readable, and the load is repeated.
    ///     assert_eq!(page.cast::<u64>().add(1).read_volatile(), 0);
    /// }
    /// # Ok::<(), signal::Error>(())
    /// ```
    #[cfg(target_os = "linux")]
    pub fn fault_address(&self) -> Option<usize> {
        /// The code of faults that the kernel does not describe.
        const SI_KERNEL: i32 = 0x80;
        /// A tag did not match at some earlier instruction (AArch64). The kernel knows no address.
        const SEGV_MTEAERR: i32 = 8;
        /// A return address does not match that on the shadow stack. It is no data.
        const SEGV_CPERR: i32 = 10;
        /// Memory has gone bad that this thread has not accessed.
        const BUS_MCEERR_AO: i32 = 5;
        /// The processor has checked the alignment. On x86 it does not report the address.
        const BUS_ADRALN: i32 = 1;
        let is_of_data = matches!(self.signal, libc::SIGSEGV | libc::SIGBUS);
        let is_described = match (self.signal, self.info.si_code) {
            (_, SI_KERNEL) | (libc::SIGSEGV, SEGV_MTEAERR | SEGV_CPERR) => false,
            (libc::SIGBUS, BUS_MCEERR_AO) => false,
            (libc::SIGBUS, BUS_ADRALN) => !cfg!(any(target_arch = "x86_64", target_arch = "x86")),
            (_, code) => code > 0,
        };
        // SAFETY: the record of a fault holds an address.
        (is_of_data && is_described).then(|| unsafe { self.info.si_addr() }.addr())
    }

    /// Returns the value that came with the signal, from `sigqueue` or a timer.
    ///
    /// Meaningless for a signal that carries no value.
    #[cfg(target_os = "linux")]
    pub fn value(&self) -> usize {
        // SAFETY: the word lies inside every record, and every bit pattern is valid for its type.
        unsafe { self.info.si_value().sival_ptr as usize }
    }

    /// Returns how many further expirations of a POSIX timer this signal stands for; 0 if no timer
    /// sent it.
    ///
    /// A [`mask()`](super::mask()) loses no expiration, with three exceptions:
    ///
    /// * [`with_kernel_mask`](super::with_kernel_mask) is called while the user's queue is full
    ///   (`RLIMIT_SIGPENDING`).
    /// * `with_kernel_mask` is called while a standard signal of the timer is deferred, and another
    ///   one arrives [in that very moment](crate::docs::limitations#signal-handlers-and-masks). Use
    ///   a real-time signal there.
    /// * The handler runs [on the alternate stack](super::Options::on_alternate_stack), the timer's
    ///   signal is a standard one and goes to a thread (`SIGEV_THREAD_ID`), and the timer expires
    ///   again while the signal is deferred. Use a real-time signal there.
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

    /// Returns the address of the instruction at which the thread continues after the handler; 0 on
    /// systems that do not report it.
    pub fn program_counter(&self) -> usize {
        self.program_counter
    }

    /// Returns the address of the instruction that the signal interrupted; 0 on systems that do not
    /// report it.
    ///
    /// For profilers. Differs from [`program_counter`](Event::program_counter) if the signal
    /// interrupted a sequence.
    pub fn original_pc(&self) -> usize {
        self.original_pc
    }

    /// Returns what the signal interrupted.
    pub fn interrupted(&self) -> Interrupted {
        self.interrupted
    }

    /// Returns the interrupted thread's context, a `ucontext_t`.
    ///
    /// Changes take effect when the handler returns, so writing to it can break any invariant of
    /// the interrupted code.
    pub fn context(&self) -> *mut c_void {
        self.context
    }

    /// Calls the handler that was there when this one was installed, if there was one.
    ///
    /// The signals that it asked for are blocked while it runs. The default action is not carried
    /// out: that is [`default_action`](Event::default_action). A handler with `SA_RESETHAND` is
    /// called once, as the kernel would call it, and is the default action from then on. Costs two
    /// system calls if there is a handler.
    pub fn chain(&mut self) -> Chained {
        // SAFETY: this runs in a handler, on the thread and with the record and the context that
        // the kernel gave it.
        unsafe { self.previous.call(self.signal, self.info, self.context) }
    }
}

impl Event<'_> {
    /// Has the signal do what it does without a handler, as soon as this handler returns.
    ///
    /// For handlers that clean up or report before the process ends, and for those of stop signals.
    ///
    /// * Where the default action ends the process, it ends by this signal, with a core dump where
    ///   that is due, and its parent sees that signal. The signal is blocked until the handler
    ///   returns; another thread that gets one of its number ends the process at once. A fault ends
    ///   it at the faulting instruction, which is executed again: a handler that has removed the
    ///   fault's cause, or that changes the program counter, lets the process go on without a
    ///   handler of this signal.
    /// * Where it stops the process, the process stops at once, by `SIGSTOP`, and the handler stays
    ///   installed. It also stops in an orphaned process group, where without a handler these
    ///   signals do nothing: there no shell may be left to continue it.
    /// * Where it does nothing, nothing happens. On Linux it does nothing in the first process of a
    ///   PID namespace (a container's, whose `getpid` is 1), unless an instruction raised the
    ///   signal. A handler that is to end such a process calls `_exit`.
    ///
    /// Replaces the disposition of a signal that ends the process, also one that other code has
    /// installed over this handler. Costs up to six system calls.
    #[cfg(unix)]
    pub fn default_action(&mut self) {
        super::runtime::carry_out_default(self.signal, self.info);
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

#[cfg(all(test, atomseq_sections))]
mod tests {
    use super::*;
    use crate::platform::Disposition;

    /// For a fault whose address it does not know, the kernel reports 0.
    #[test]
    fn only_a_fault_of_known_data_has_an_address() {
        let address = |signal: i32, code: i32| {
            // SAFETY: plain old data.
            let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
            (info.si_signo, info.si_code) = (signal, code);
            let event = Event {
                signal,
                info: &info,
                context: std::ptr::null_mut(),
                program_counter: 0,
                original_pc: 0,
                interrupted: Interrupted::Plain,
                previous: &Previous::new(Disposition::DEFAULT),
            };
            event.fault_address()
        };
        // Not mapped, not allowed; no such physical address, not aligned, bad memory that was
        // accessed.
        let is_reported = !cfg!(target_arch = "x86_64");
        assert_eq!(
            [1, 2].map(|code| address(libc::SIGSEGV, code)),
            [Some(0); 2]
        );
        assert_eq!(address(libc::SIGBUS, 1), is_reported.then_some(0));
        assert_eq!([2, 4].map(|code| address(libc::SIGBUS, code)), [Some(0); 2]);
        // Sent, not described, an earlier tag, a return address; other bad memory.
        for code in [libc::SI_USER, libc::SI_TKILL, 0x80, 8, 10] {
            assert_eq!(address(libc::SIGSEGV, code), None, "{code}");
        }
        assert_eq!(address(libc::SIGBUS, 5), None);
        assert_eq!(address(libc::SIGTRAP, 2), None);
    }
}
