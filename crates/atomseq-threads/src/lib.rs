//! User-level threads.
//!
//! [`runtime`] has those that may do everything: closures on a few kernel threads. None can freeze
//! the others by computing or blocking (S92, section 5.3).
//!
//! [`coroutine`] has those of one kernel thread: a switch takes a few nanoseconds, and in regions
//! that allow it a signal preempts them at any instruction (B91, section 3.2). Linux, on x86-64 and
//! AArch64.

#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod arch;
pub mod coroutine;
pub mod runtime;
mod stack;
mod sync;

/// The signals that faults and `abort` raise. No handler blocks them, so they end no slices.
const NEVER_BLOCKED: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];

/// Returns a guard, held from the look at a signal's handler to the change of it: a runtime and a
/// run of coroutines that choose the same signal at once must not both succeed.
fn claim_signals() -> std::sync::MutexGuard<'static, ()> {
    static CLAIMS: std::sync::Mutex<()> = std::sync::Mutex::new(());
    CLAIMS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
