//! The items that expansions of this crate's macros refer to at run time. They are not part of the
//! interface and may change with any version.
//!
//! The module does not depend on the feature `unstable-internals`, because a user's own sequences
//! need it. Other macros with names that start with `__` serve the same purpose; `macro_rules!` can
//! export them only at the crate's root.

pub mod check;
pub mod gated;
mod restarts;

pub use crate::local::per_thread::Image;
pub use crate::nonblocking::plain::{check_plain, size_of_field};
#[cfg(not(atomseq_sections))]
pub use crate::platform::SignalsBlocked;
#[cfg(atomseq_sections)]
pub use crate::platform::started_rseq_offset;
pub use crate::type_stable::descriptor::{check_field, check_fields};
pub use restarts::Restarts;
pub(crate) use restarts::{RESTART_LIMIT, RESTARTED};

/// Implemented for no type. A sequence without the form `on_cpu` has a function of that name whose
/// bound is this, so that calling it is an error with this message.
#[diagnostic::on_unimplemented(
    message = "this sequence has no form `on_cpu`, because it does not end with a commit",
    label = "not a form of this sequence",
    note = "the kernel restarts this form, which would repeat a visible `store`: write each store \
            but the last as `prepare`, and the last as `commit`; or call `rolling`"
)]
pub trait EndsWithCommit {}

/// The same for a sequence that is not for a CPU.
#[diagnostic::on_unimplemented(
    message = "this sequence has no form `on_cpu`, because nothing ties it to a CPU",
    label = "not a form of this sequence",
    note = "take a `Slot`, or compare `cpu()`; against this thread's signal handlers alone, call \
            `restarting` or `rolling`"
)]
pub trait TiedToCpu {}

/// Marks the branch that calls it as unlikely.
#[cold]
#[inline(always)]
pub const fn unlikely() {}

/// The items of the standard library that expansions use. Expansions name them through this crate's
/// path: in the caller's crate, `::core` and `::std` may be any crates, and `assert!` any macro.
pub mod standard {
    #[cfg(atomseq_sections)]
    pub use core::arch::asm;
    pub use core::cmp::Ord;
    #[cfg(not(atomseq_sections))]
    pub use core::mem::ManuallyDrop;
    pub use core::ops::FnMut;
    pub use core::option::Option;
    #[cfg(atomseq_sections)]
    pub use core::option::Option::{None, Some};
    pub use core::prelude::v1::{Clone, Copy, derive};
    pub use core::primitive::{bool, i128, u32, usize};
    pub use core::result::Result;
    pub use core::{assert, concat};
    #[cfg(not(atomseq_sections))]
    pub use std::{thread::LocalKey, thread_local};
}
