//! The hint which thread runs operations of a server, and how long callers wait for it.

use crate::sync::{AtomicU64, Ordering, spin_loop};

/// No thread runs an operation.
pub(super) const IDLE: u64 = 0;

/// The runner of a server that a test has abandoned. No thread has this number.
#[cfg(any(test, feature = "unstable-internals"))]
pub(super) const ABANDONED: u64 = 1;

/// How many pauses a caller leaves a server without progress before it takes over: some
/// microseconds.
///
/// A server that needs longer for one operation is taken over while it works, and the operation
/// runs twice. A stopped server costs its callers this time once: the thread that takes over is the
/// new server.
const PATIENCE: u32 = 1 << 7;

/// Names the calling thread as the runner until it is dropped. Relaxed throughout: a hint.
pub(super) struct Running<'a> {
    runner: &'a AtomicU64,
    me: u64,
    /// The runner before: this thread, if a handler has interrupted it.
    before: u64,
}

impl<'a> Running<'a> {
    /// Names this thread without an atomic instruction. Two threads may do so at the same time; one
    /// of them fails to publish its operation, and retries.
    #[inline(always)]
    pub(super) fn start(runner: &'a AtomicU64, me: u64, before: u64) -> Running<'a> {
        runner.store(me, Ordering::Relaxed);
        Running { runner, me, before }
    }

    /// Names this thread if `before` still runs, or nothing does.
    pub(super) fn take_over(runner: &'a AtomicU64, me: u64, before: u64) -> Option<Running<'a>> {
        let taken = runner.compare_exchange(before, me, Ordering::Relaxed, Ordering::Relaxed);
        taken.ok()?;
        let before = if before == me { me } else { IDLE };
        Some(Running { runner, me, before })
    }
}

impl Drop for Running<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.runner.load(Ordering::Relaxed) == self.me {
            self.runner.store(self.before, Ordering::Relaxed);
        }
    }
}

/// How long a caller has waited without seeing progress.
#[derive(Default)]
pub(super) struct Waited {
    pauses: u32,
    /// The runner and the current state at the last look.
    last: (u64, u64),
}

impl Waited {
    /// Pauses, and returns whether to wait on for this runner.
    pub(super) fn more(&mut self, runner: u64, progress: u64) -> bool {
        if self.last != (runner, progress) {
            self.last = (runner, progress);
            self.pauses = 0;
        }
        self.pauses += 1;
        spin_loop();
        self.pauses < PATIENCE
    }
}
