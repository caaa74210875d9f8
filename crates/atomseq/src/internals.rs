//! What the checkers, the benchmarks and the command of this project reach into: the feature
//! `unstable-internals`. It may change with any version.
//!
//! The feature also adds constructors that force a mechanism (`forced`), operations that stop half
//! way (`abandon*`), and operations that run a closure half way (`*_between`). It changes nothing
//! else: the code of every other operation is the same without it, except that
//! `signal_controls` then cannot switch a protection off.

use crate::sequence::model::Program;

/// Sequences by the file that they are in.
pub type Sequences = &'static [(&'static str, &'static [&'static Program])];

/// Whether this build has protected sections, for crates whose build scripts answer the same.
pub const SECTIONS: bool = cfg!(atomseq_sections);
/// Those of [`dcas`](crate::dcas).
pub const DCAS_SEQUENCES: Sequences = crate::dcas::SEQUENCES;
/// Those of [`local`](crate::local).
pub const LOCAL_SEQUENCES: Sequences = crate::local::SEQUENCES;
/// Those of [`mutex`](crate::mutex).
pub const MUTEX_SEQUENCES: Sequences = crate::mutex::SEQUENCES;
/// Those of [`nonblocking`](crate::nonblocking).
pub const NONBLOCKING_SEQUENCES: Sequences = crate::nonblocking::SEQUENCES;
/// Those of [`percpu`](crate::percpu).
pub const SEQUENCES: Sequences = crate::percpu::SEQUENCES;

pub use crate::platform::*;
pub use crate::sync::set_pauses;

/// The instructions of a sequence, read again as the kernel reads them.
#[cfg(atomseq_sections)]
pub mod inspect {
    pub use crate::sequence::inspect::*;
}

/// The rows that sequences for signals leave in the executable.
#[cfg(atomseq_sections)]
pub mod table {
    pub use crate::sequence::table::*;
}

/// Protections that can be switched off.
#[cfg(atomseq_sections)]
pub mod signal_controls {
    pub use crate::signal::controls::*;
}
