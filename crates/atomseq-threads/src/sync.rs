//! The atomics of protocols that are also compiled under model checkers, which replace this module.

pub(crate) use core::sync::atomic::{AtomicU32, Ordering};
