//! Runs of coroutines, for all tests: the one place that promises what these need.

#![allow(dead_code, reason = "each test uses one or both")]

use atomseq_threads::coroutine::{self, Builder, Error};

/// Calls [`coroutine::run`].
#[track_caller]
pub fn run<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: no test switches inside of a thread-local's initial value or destructor, nor in a
    // scope that must end before others, and none uses another package's coroutines.
    unsafe { coroutine::run(f) }
}

/// Calls [`Builder::run`].
pub fn run_with<R>(builder: Builder, f: impl FnOnce() -> R) -> Result<R, Error> {
    // SAFETY: as in `run`.
    unsafe { builder.run(f) }
}
