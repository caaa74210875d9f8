//! Atomics and waiting under one name. The model checker in `verify/` compiles the files that
//! import this a second time, with atomics and waiting of its own in this place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Lets other threads run: B91's `await`, as it says for uniprocessors (2.2).
#[cold]
pub(crate) fn relinquish() {
    crate::statistics::WAITS.add();
    std::thread::yield_now();
}
