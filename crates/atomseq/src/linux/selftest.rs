//! The self-test: start-up interrupts a section of its own and sees whether the kernel aborts it. Kernels and
//! sandboxes have accepted registrations and then aborted nothing.
//!
//! ```text
//! this thread                      helper (a child that shares memory, made and reaped here)
//!   arm; on the right CPU?           preemption: move to that CPU
//!   ready = 1           ──────>      sleep and look until ready
//!   spin until done                  fence: membarrier
//!                       <──────      done = 1; exit
//! ```
//! *Preemption*: the helper can look only while this thread does not run, so by then the section must have been aborted.
//! *Fence*: `membarrier` returns only after the abort. So in both, a section that still runs and sees `done` is proof that
//! an abort is missing. The helper is no thread of this process: once reaped, nothing of it is left, where a thread
//! could still stand in the way of an `unshare`.

use super::rseq;
use crate::arch::{KickWords, spawn_kicker, syscall, watch, watched};
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// How to interrupt the section.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kick {
    Preemption = 0,
    Fence = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The kernel aborted the section.
    Aborted,
    /// The section was interrupted and not aborted.
    Missed,
    /// The section was not interrupted in time.
    Nothing,
    /// No helper (an error number).
    Blocked(i32),
}

/// Rounds that the section spins: 2 to 4 ms at about 1 ns a round.
const ROUNDS: u64 = 3_000_000;
/// How often, and in what distance (in nanoseconds), the helper looks: together longer than the section spins.
const LOOKS: u32 = 200;
const NAP: i64 = 20_000;
/// An attempt comes to nothing when the thread is moved meanwhile, or the machine is busy.
const ATTEMPTS: u32 = 4;

/// Interrupts a section. The caller has blocked all signals, and this thread is registered.
pub(super) fn interrupt(kick: Kick) -> Outcome {
    for _ in 0..ATTEMPTS {
        match attempt(kick) {
            Outcome::Nothing => {}
            outcome => return outcome,
        }
    }
    Outcome::Nothing
}

fn attempt(kick: Kick) -> Outcome {
    let cpu = rseq::cpu_id().max(0) as usize;
    let mut mask = [0u64; 1024];
    if cpu >= mask.len() * 64 {
        return Outcome::Nothing;
    }
    mask[cpu / 64] = 1 << (cpu % 64);
    let words = KickWords {
        ready: AtomicU32::new(0),
        done: AtomicU32::new(0),
        cpu: cpu as u32,
        kick: kick as u32,
        result: AtomicI32::new(0),
        rounds: LOOKS,
        nap: [0, NAP],
        mask_bytes: size_of_val(&mask),
        mask: mask.as_ptr().cast(),
    };
    // SAFETY: signals are blocked, no section is armed, and `words` outlives the child, which is waited for below.
    let child = unsafe { spawn_kicker(&words) };
    if child < 0 {
        return Outcome::Blocked(-child as i32);
    }
    // SAFETY: this thread is registered, so `area` is its struct rseq; `words` is valid.
    let end = unsafe { watch(rseq::area(), &words, ROUNDS) };
    // Whatever happened, the helper must not wait on.
    words.ready.store(1, Ordering::Release);
    reap(child as usize);
    let kicked = words.result.load(Ordering::Relaxed) == 0;
    match end {
        watched::ABORTED => Outcome::Aborted,
        watched::MISSED if kicked => Outcome::Missed,
        end => {
            debug_assert!([watched::MISSED, watched::NOTHING, watched::MOVED].contains(&end));
            Outcome::Nothing
        }
    }
}

/// Waits for the helper. It ends by itself within a few milliseconds; a debugger may reap it first.
fn reap(child: usize) {
    let children_of_any_kind = libc::__WALL as usize;
    // SAFETY: no status and no usage are asked for.
    while unsafe { syscall(libc::SYS_wait4, [child, 0, children_of_any_kind, 0, 0, 0]) }
        == -(libc::EINTR as isize)
    {}
}

/// Whether the CPU number that the kernel keeps for this thread is the one it tells.
pub(super) fn cpu_number_is_right() -> bool {
    // A thread may be moved between the two looks, but not every time.
    (0..64).any(|_| {
        let mut told = u32::MAX;
        let before = rseq::cpu_id();
        // SAFETY: the kernel writes one word of ours; the other two arguments are null.
        let result = unsafe { syscall(libc::SYS_getcpu, [&raw mut told as usize, 0, 0, 0, 0, 0]) };
        result == 0 && before >= 0 && before as u32 == told && rseq::cpu_id() == before
    })
}
