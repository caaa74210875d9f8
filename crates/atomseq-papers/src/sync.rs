//! Atomics and waiting under one name. The model checker in `verify/` recompiles the files that
//! import this, with its own atomics and waiting in this module's place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Yields the processor: B91's `await`, as it prescribes for uniprocessors (section 2.2).
#[cold]
pub(crate) fn relinquish() {
    crate::statistics::WAITS.add();
    std::thread::yield_now();
}
