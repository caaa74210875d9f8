//! Atomics and waiting under one name. The model checker in `verify/` compiles the files that import
//! this a second time, with atomics and waiting of its own in this place.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

#[allow(unused_imports, reason = "portable builds wake only one")]
pub(crate) use crate::platform::{wait, wake_all, wake_one};

/// How often a thread looks again before it parks.
pub(crate) const SPINS: usize = 100;
