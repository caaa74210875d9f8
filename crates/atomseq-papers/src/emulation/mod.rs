//! Kernel emulation: test-and-set by code that takes control from the thread (B91, section 2.3).
//!
//! | type | what emulates | how it gets control |
//! |---|---|---|
//! | [`Trap`] | a handler of `SIGILL`, with an interlocked instruction | an undefined instruction, as in B91 |
//! | [`Call`] | the Linux kernel, with its own compare-and-swap | a system call: `FUTEX_TRYLOCK_PI` |
//!
//! # Differences from B91
//!
//! * In B91 the kernel itself decodes the pseudo-instruction and executes it with interrupts
//!   disabled, so it is atomic on one CPU only. Linux does not know the instruction and turns it
//!   into a signal. [`Trap`]'s handler decodes and checks as B91's kernel does, with all signals
//!   blocked. It uses an interlocked instruction, so its scope is
//!   [`Machine`](atomseq::scope::Machine). In addition to the trap it pays for the delivery and
//!   return of a signal. Under a hypervisor that inspects every undefined instruction, the trap
//!   itself dominates: 5.7 µs for `ud2` and a handler that skips it, but 1.3 µs for `int3` and a
//!   handler that does nothing (x86-64 virtual machine, minimum of 600 runs of 50 each).
//! * `FUTEX_WAKE_OP` also exchanges a word, but does not return the old value.
//!
//! There is no emulation on systems other than Linux on x86-64 and AArch64, nor with `--cfg
//! atomseq_portable`. [`Trap::start`] and [`Call::start`] then return an error, and setting a
//! variable panics with its message.

use std::fmt;

use atomseq::signal;

#[cfg(atomseq_sections)]
mod linux;
#[cfg(atomseq_sections)]
use linux as platform;

#[cfg(not(atomseq_sections))]
mod absent;
#[cfg(not(atomseq_sections))]
use absent as platform;

mod mechanisms;

#[cfg(atomseq_sections)]
#[doc(hidden)]
pub use linux::trap::test_and_set_at;
pub use mechanisms::{Call, Trap};

/// Reports why this process has no emulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The system has no emulation.
    Unsupported,
    /// The handler of the trap was not installed.
    Handler(signal::Error),
    /// The kernel refused a system call.
    Refused {
        /// The name of the call.
        call: &'static str,
        /// The error number.
        errno: i32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unsupported => f.write_str(
                "emulation needs Linux on x86-64 or AArch64, and no --cfg atomseq_portable; choose another mechanism",
            ),
            Error::Handler(error) => {
                write!(f, "the handler that emulates was not installed: {error}")
            }
            Error::Refused { call, errno } => write!(
                f,
                "{call} failed: {}; look for a sandbox that forbids it, or choose another mechanism",
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
