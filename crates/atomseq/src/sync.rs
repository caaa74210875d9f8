//! Atomics and waiting under one name. The model checker in `verify/` compiles the files that import
//! this a second time, with atomics and waiting of its own in this place.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

#[allow(unused_imports, reason = "portable builds do not watch forks")]
pub(crate) use crate::platform::{
    generation, wait, wait_at_most, wait_briefly, wake_all, wake_one,
};

/// How often a thread looks again before it parks.
pub(crate) const SPINS: usize = 100;

/// How often a closer of a gate waits for a fork, for a millisecond each.
#[allow(dead_code, reason = "portable builds do not watch forks")]
pub(crate) const PATIENCE: u32 = 4;
