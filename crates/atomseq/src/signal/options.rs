//! The options of a handler, and the errors of installing and removing one.

/// The options of a handler: what `sa_flags` and `sa_mask` are to `sigaction`.
///
/// By default, interrupted system calls are restarted, and all managed signals are blocked while
/// the handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    pub(super) interrupting: bool,
    pub(super) nesting: bool,
    pub(super) no_defer: bool,
    pub(super) once: bool,
    /// Bytes of alternate stack that the handler needs; `None`: it runs on the thread's own stack.
    pub(super) stack: Option<usize>,
    /// Further signals to block: bit `n - 1` is signal `n`.
    pub(super) blocked: u128,
}

impl Options {
    /// Returns the default options.
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

    /// Makes system calls that the signal interrupts fail with `EINTR` instead of being restarted
    /// (no `SA_RESTART`).
    pub const fn interrupting(mut self) -> Options {
        self.interrupting = true;
        self
    }

    /// Blocks `signal` as well while the handler runs.
    ///
    /// Ignores numbers that are not signals, and signals that are [never
    /// blocked](crate::signal#signals-that-are-never-held-back).
    pub const fn blocking(mut self, signal: i32) -> Options {
        if signal >= 1 && signal <= 128 {
            self.blocked |= 1 << (signal - 1);
        }
        self
    }

    /// Lets other managed signals interrupt the handler, except those that
    /// [`blocking`](Options::blocking) names.
    ///
    /// Has no effect while the handler runs [inside](crate::signal::Interrupted::Inside) a
    /// sequence.
    pub const fn nesting(mut self) -> Options {
        self.nesting = true;
        self
    }

    /// Lets the signal itself interrupt its handler (`SA_NODEFER`).
    ///
    /// Takes effect when the delivery has decided how the interrupted sequence continues.
    pub const fn no_defer(mut self) -> Options {
        self.no_defer = true;
        self
    }

    /// Makes the handler run for one signal only; the next one meets the default action
    /// (`SA_RESETHAND`).
    ///
    /// Takes effect when the delivery has decided how the interrupted sequence continues. A handler
    /// that other code has installed over this one stays installed; what it passes on has no effect
    /// from then on.
    ///
    /// A handler cannot reset the disposition, because that could replace what another thread
    /// installs at the same time. So atomseq's entry stays installed and carries out the default
    /// action until the next [`install`](crate::signal::install),
    /// [`uninstall`](crate::signal::uninstall), [`audit`](crate::signal::audit()) or
    /// [`repair`](crate::signal::repair()) removes it. Until then `sigaction` reports a handler.
    pub const fn once(mut self) -> Options {
        self.once = true;
        self
    }

    /// Runs the handler on the thread's alternate stack if it has one (`SA_ONSTACK`).
    ///
    /// `bytes` is what the handler itself needs. Beside it, the stack must hold three deliveries
    /// that interrupt each other; [`install_with`](crate::signal::install_with) refuses if the
    /// calling thread's stack does not. A delivery takes the kernel's frame (`AT_MINSIGSTKSZ`) and
    /// 3 KiB of atomseq's own, 4 KiB without optimisation. Three take about 19 KiB on x86-64 with
    /// AVX-512, 22 KiB without optimisation. The standard library gives its threads 8 KiB, which are
    /// refused. An [`AlternateStack`](crate::signal::AlternateStack) on each thread is large enough.
    ///
    /// Only the calling thread's stack is checked. **On a thread without an `AlternateStack` of its
    /// own, a crash can end the process without a word:** with the standard library's 8 KiB the
    /// kernel or the handler runs out of room, and with no alternate stack the handler runs on the
    /// thread's own stack, which an overflow has used up.
    pub const fn on_alternate_stack(mut self, bytes: usize) -> Options {
        self.stack = Some(bytes);
        self
    }
}

/// The reason why a handler was not installed, or not removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// There is no signal of this number.
    NoSignal(i32),
    /// The signal cannot be handled (`SIGKILL`, `SIGSTOP`), or belongs to the C library (the first
    /// real-time signals).
    Reserved(i32),
    /// The signal has no handler of atomseq's.
    NotInstalled(i32),
    /// Other code has installed a handler over atomseq's since, and may call it. So atomseq's
    /// cannot be removed.
    Displaced(i32),
    /// The calling thread's alternate stack does not hold three deliveries and the handler.
    AlternateStackTooSmall {
        /// Its size in bytes.
        has: usize,
        /// The size that is needed, in bytes.
        needs: usize,
    },
    /// The thread is running on its alternate stack, so it cannot have another one.
    AlternateStackInUse,
    /// The system gave no alternate stack.
    NoAlternateStack {
        /// The error number; `ENOMEM` if there is no memory.
        errno: i32,
    },
    /// The kernel or the C library refused `rt_sigaction`, `sigaltstack` or the registration of
    /// fork handlers; `ENOMEM` if there is no memory.
    Refused {
        /// The signal.
        signal: i32,
        /// The error number.
        errno: i32,
    },
    /// This system has no signals; neither has Miri.
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
                write!(f, "signal {signal} has no handler of atomseq's")
            }
            Error::Displaced(signal) => write!(
                f,
                "signal {signal} has another handler now, which may call atomseq's; remove that one first"
            ),
            Error::AlternateStackTooSmall { has, needs } => write!(
                f,
                "the alternate stack has {has} bytes, and three deliveries and the handler take {needs}; \
                 give the thread an AlternateStack, or leave on_alternate_stack out"
            ),
            Error::AlternateStackInUse => f.write_str(
                "this thread is running on its alternate stack; make an AlternateStack outside of handlers",
            ),
            Error::NoAlternateStack { errno } => write!(
                f,
                "the system gives no alternate stack: {}; look for a limit of memory, or a sandbox that forbids mmap, mprotect or sigaltstack",
                std::io::Error::from_raw_os_error(*errno)
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
