//! How a handler is installed, and why it was not.

/// How a signal is handled: what `sa_flags` and `sa_mask` are to `sigaction`.
///
/// By default interrupted system calls are restarted, and all managed signals are blocked while the
/// handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    pub(super) interrupting: bool,
    pub(super) nesting: bool,
    pub(super) no_defer: bool,
    pub(super) once: bool,
    /// Bytes of alternate stack that the handler needs.
    pub(super) stack: Option<usize>,
    /// More signals to block, bit `n - 1` for signal `n`.
    pub(super) blocked: u128,
}

impl Options {
    /// The default.
    pub const fn new() -> Options {
        Options {
            interrupting: false,
            nesting: false,
            no_defer: false,
            once: false,
            stack: None,
            blocked: 0,
        }
    }

    /// System calls that the signal interrupts fail with `EINTR` instead of being restarted (no
    /// `SA_RESTART`).
    pub const fn interrupting(mut self) -> Options {
        self.interrupting = true;
        self
    }

    /// Blocks `signal` as well while the handler runs. Numbers that are no signal's, and signals
    /// that are [never blocked](crate::signal#signals-that-are-never-held-back), are passed over.
    pub const fn blocking(mut self, signal: i32) -> Options {
        if signal >= 1 && signal <= 128 {
            self.blocked |= 1 << (signal - 1);
        }
        self
    }

    /// Lets other managed signals interrupt the handler, except for those that
    /// [`blocking`](Options::blocking) names, unless it runs
    /// [inside](crate::signal::Interrupted::Inside) a sequence.
    pub const fn nesting(mut self) -> Options {
        self.nesting = true;
        self
    }

    /// Lets the signal itself interrupt its handler (`SA_NODEFER`, but only once it is decided how
    /// the interrupted sequence goes on).
    pub const fn no_defer(mut self) -> Options {
        self.no_defer = true;
        self
    }

    /// Handles one signal only; the next one meets the default action (`SA_RESETHAND`, but only
    /// once it is decided how the interrupted sequence goes on). A handler that other code has
    /// installed over this one stays installed, and what it passes on has no effect from then on.
    ///
    /// Atomseq's entry stays installed for the default action until the next
    /// [`install`](crate::signal::install), [`uninstall`](crate::signal::uninstall),
    /// [`audit`](crate::signal::audit()) or [`repair`](crate::signal::repair()), since a handler
    /// could replace what another thread installs. Until then `sigaction` reports a handler.
    pub const fn once(mut self) -> Options {
        self.once = true;
        self
    }

    /// Runs the handler on the thread's alternate stack if it has one (`SA_ONSTACK`). `bytes` is
    /// what the handler itself needs; the stack must hold three deliveries beside it, of which one
    /// interrupts the other, and [`install_with`](crate::signal::install_with) refuses if the
    /// calling thread's does not. A delivery takes the kernel's frame and 2 KiB, without
    /// optimisation 3 KiB, of atomseq's own: together about 12 KiB on x86-64. The standard library
    /// gives its threads 8 KiB, which are refused.
    pub const fn on_alternate_stack(mut self, bytes: usize) -> Options {
        self.stack = Some(bytes);
        self
    }
}

/// Why a handler was not installed, or not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// There is no signal of this number.
    NoSignal(i32),
    /// `SIGKILL` and `SIGSTOP` cannot be handled; two real-time signals belong to the C library.
    Reserved(i32),
    /// No handler of atomseq's is installed for this signal.
    NotInstalled(i32),
    /// Someone else has installed a handler over atomseq's since, and may call it: it cannot be
    /// removed.
    Displaced(i32),
    /// The calling thread's alternate stack does not hold three deliveries and the handler.
    AlternateStackTooSmall {
        /// Its size in bytes.
        has: usize,
        /// How many it takes.
        needs: usize,
    },
    /// The kernel refused `rt_sigaction`, `sigaltstack` or what registers the handlers of forks; or
    /// there is no memory, with `ENOMEM`.
    Refused {
        /// The signal.
        signal: i32,
        /// The error number.
        errno: i32,
    },
    /// This system has no signals.
    Unsupported,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::NoSignal(signal) => {
                write!(f, "there is no signal {signal}; use the constants of libc")
            }
            Error::Reserved(signal) => write!(
                f,
                "signal {signal} belongs to the kernel or the C library; choose another"
            ),
            Error::NotInstalled(signal) => {
                write!(
                    f,
                    "signal {signal} has no handler of atomseq's; install one first"
                )
            }
            Error::Displaced(signal) => write!(
                f,
                "signal {signal} has another handler now, which may call atomseq's; remove that one first"
            ),
            Error::AlternateStackTooSmall { has, needs } => write!(
                f,
                "the alternate stack has {has} bytes, and three deliveries and the handler take {needs}; \
                 give sigaltstack a larger one, or leave on_alternate_stack out"
            ),
            Error::Refused { signal, errno } => write!(
                f,
                "a call to the kernel for signal {signal} failed: {}; look for a sandbox that forbids sigaction or sigaltstack, or a limit of memory",
                std::io::Error::from_raw_os_error(*errno)
            ),
            Error::Unsupported => {
                f.write_str("this system has no signals; leave handlers out on it")
            }
        }
    }
}

impl std::error::Error for Error {}
