//! What the code that this crate's macros generate names at run time. No part of the interface: it
//! may change with any version.
//!
//! It is compiled without the feature `unstable-internals`, since a user's own sequences need it.
//! The macros of other names that start with `__` are of the same kind; `macro_rules!` exports them
//! at the crate's root only.

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

/// Marks the branch that calls it as unlikely.
#[cold]
#[inline(always)]
pub const fn unlikely() {}

/// What expansions use of the standard library. They name it by this crate's path alone: where
/// they stand, `::core` and `::std` may be any crates, and `assert!` any macro.
pub mod standard {
    #[cfg(atomseq_sections)]
    pub use core::arch::asm;
    pub use core::cmp::Ord;
    #[cfg(not(atomseq_sections))]
    pub use core::mem::ManuallyDrop;
    pub use core::ops::FnMut;
    pub use core::option::Option;
    pub use core::prelude::v1::{Clone, Copy, derive};
    pub use core::primitive::{bool, i128, u32, usize};
    pub use core::result::Result;
    pub use core::{assert, concat};
    #[cfg(not(atomseq_sections))]
    pub use std::{thread::LocalKey, thread_local};
}
