//! The atomics of protocols that are also compiled under model checkers, which replace this module.

pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
pub(crate) use std::thread::yield_now;
