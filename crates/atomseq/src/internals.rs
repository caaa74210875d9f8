//! The interface for the checkers, benchmarks and command of this project, behind the feature
//! `unstable-internals`. It may change with any version.
//!
//! The feature also adds constructors that force a mechanism (`forced`), operations that stop in
//! the middle (`abandon*`), and operations that run a closure in the middle (`*_between`). It
//! changes nothing else: every other operation has the same code without it, except that
//! `signal_controls` then cannot turn a protection off.

use crate::sequence::model::Program;

/// Sequences, grouped by the file that contains them.
pub type Sequences = &'static [(&'static str, &'static [&'static Program])];

/// Whether this build has protected sections. Crates whose build scripts decide the same compare
/// with it.
pub const SECTIONS: bool = cfg!(atomseq_sections);
/// The sequences of [`dcas`](crate::dcas).
pub const DCAS_SEQUENCES: Sequences = crate::dcas::SEQUENCES;
/// The sequences of [`local`](crate::local).
pub const LOCAL_SEQUENCES: Sequences = crate::local::SEQUENCES;
/// The sequences of [`mutex`](crate::mutex).
pub const MUTEX_SEQUENCES: Sequences = crate::mutex::SEQUENCES;
/// The sequences of [`nonblocking`](crate::nonblocking).
pub const NONBLOCKING_SEQUENCES: Sequences = crate::nonblocking::SEQUENCES;
/// The sequences of [`percpu`](crate::percpu).
pub const SEQUENCES: Sequences = crate::percpu::SEQUENCES;

#[cfg(atomseq_sections)]
pub use crate::arch::roll;
pub use crate::platform::*;
pub use crate::sync::set_pauses;

/// Returns whether a signal is one that nothing holds back: a fault's, or `SIGABRT`.
#[cfg(atomseq_sections)]
pub fn is_unmaskable(signal: core::ffi::c_int) -> bool {
    crate::signal::is_unmaskable(signal)
}

/// Returns whether an instruction has raised the signal.
#[cfg(atomseq_sections)]
pub fn is_raised_by_fault(signal: core::ffi::c_int, info: &libc::siginfo_t) -> bool {
    crate::signal::is_raised_by_fault(signal, info)
}

/// The instructions of a sequence, decoded again as the kernel sees them.
#[cfg(atomseq_sections)]
pub mod inspect {
    pub use crate::sequence::inspect::*;
}

/// The rows that signal sequences leave in the executable.
#[cfg(atomseq_sections)]
pub mod table {
    pub use crate::sequence::table::*;
}

/// Switches that turn protections off.
#[cfg(atomseq_sections)]
pub mod signal_controls {
    pub use crate::signal::controls::*;
}
