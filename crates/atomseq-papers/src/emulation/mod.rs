//! Kernel emulation: test-and-set by somebody who gets control from the thread (B91 2.3).
//!
//! | type | who emulates | how control gets there |
//! |---|---|---|
//! | [`Trap`] | a handler of `SIGILL`, with an interlocked instruction | an undefined instruction, as in B91 |
//! | [`Call`] | the Linux kernel, with its own compare-and-swap | a system call: `FUTEX_TRYLOCK_PI` |
//!
//! # Where this differs from B91
//!
//! * In B91 the kernel itself decodes the pseudo-instruction and carries it out with interrupts
//!   disabled, and so it is atomic on one CPU only. Linux knows no such instruction and turns it
//!   into a signal; [`Trap`]'s handler decodes and checks as B91's kernel does, with all signals
//!   blocked, and uses an interlocked instruction, which makes its scope
//!   [`Machine`](atomseq::scope::Machine). It pays for a signal's delivery and return on top of the
//!   trap. Under a hypervisor that looks at every undefined instruction the trap itself is most of
//!   it: 5.7 us for `ud2` and a handler that skips it, where `int3` and a handler that does nothing
//!   take 1.3 us (x86-64 virtual machine, minimum of 600 times 50 each).
//! * `FUTEX_WAKE_OP` exchanges a word as well, but does not return what was there.
//!
//! On systems other than Linux on x86-64 and AArch64, and with `--cfg atomseq_portable`, there is
//! no emulation: [`Trap::start`] and [`Call::start`] say so, and setting a variable panics with the
//! same sentence.

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

/// Why there is no emulation in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The system has none.
    Unsupported,
    /// The handler of the trap was not installed.
    Handler(signal::Error),
    /// The kernel refused a call.
    Refused {
        /// The call.
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
