//! What the locks are built on, under one name: the model checker compiles `percpu/lock.rs` and
//! `linux/traffic.rs` a second time, and puts atomics and waiting of its own in this place.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

#[allow(unused_imports, reason = "portable builds wake only one")]
pub(crate) use crate::platform::{wait, wake_all, wake_one};

/// How often a thread looks again before it parks.
pub(crate) const SPINS: usize = 100;
