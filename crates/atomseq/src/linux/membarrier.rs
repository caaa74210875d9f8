//! The fence, after which no section that was running on a CPU still runs there, and the barrier,
//! which orders memory on all CPUs and aborts nothing.

use crate::arch::syscall;
use core::sync::atomic::{AtomicU32, Ordering};

const QUERY: usize = 0;
const PRIVATE_EXPEDITED: usize = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;
const PRIVATE_EXPEDITED_RSEQ: usize = 1 << 7;
const REGISTER_PRIVATE_EXPEDITED_RSEQ: usize = 1 << 8;
const FLAG_CPU: usize = 1;

/// Returns whether the kernel has both. `Err` holds an error number.
pub(super) fn available() -> Result<(), i32> {
    // SAFETY: a query changes nothing and accesses no memory.
    let commands = unsafe { syscall(libc::SYS_membarrier, [QUERY, 0, 0, 0, 0, 0]) };
    if commands < 0 {
        return Err(-commands as i32);
    }
    let both = PRIVATE_EXPEDITED | PRIVATE_EXPEDITED_RSEQ;
    if commands as usize & both != both {
        return Err(libc::EINVAL);
    }
    Ok(())
}

/// Announces that this process will use both. Children of `fork` inherit it.
pub(super) fn register() -> Result<(), i32> {
    announce(REGISTER_PRIVATE_EXPEDITED_RSEQ)?;
    announce(REGISTER_PRIVATE_EXPEDITED)
}

fn announce(command: usize) -> Result<(), i32> {
    // SAFETY: the commands only set a mark on this process.
    let result = unsafe { syscall(libc::SYS_membarrier, [command, 0, 0, 0, 0, 0]) };
    if result < 0 {
        return Err(-result as i32);
    }
    Ok(())
}

/// Aborts every section of this process that runs on `cpu`, and returns once none of them runs any
/// more. An absent CPU is no error, because nothing runs there. Call this only while
/// [`Status::gates_active`] holds. Costs one system call.
///
/// A fence that worked at start-up may fail later, if a sandbox was set up in between. There is no
/// safe way to continue, since the caller would change memory under a running section. The function
/// then writes a message to standard error and aborts the process.
///
/// [`Status::gates_active`]: crate::status::Status::gates_active
pub fn membarrier_rseq(cpu: usize) {
    expedite(PRIVATE_EXPEDITED_RSEQ, FLAG_CPU, cpu);
}

/// Aborts the sections of this process on all CPUs, as [`membarrier_rseq`] does on one.
pub fn fence_all() {
    expedite(PRIVATE_EXPEDITED_RSEQ, 0, 0);
}

/// Executes a full memory barrier on every CPU that runs a thread of this process, at some moment
/// between call and return. A thread that is not running has executed one since it ran, or will
/// before it runs. Call this only while [`Status::gates_active`] holds, or if [`can_order_all`]
/// returns true. It fails as [`membarrier_rseq`] does.
///
/// [`Status::gates_active`]: crate::status::Status::gates_active
pub fn barrier() {
    expedite(PRIVATE_EXPEDITED, 0, 0);
}

/// Whether waits are ordered here by [`barrier`], rather than by the other side.
pub const ORDERS_ALL: bool = true;

/// Returns whether [`barrier`] works in this process, and announces its use if needed.
/// Async-signal-safe.
pub fn can_order_all() -> bool {
    /// 0: unknown; 1: yes; 2: no. Children of `fork` inherit this word and the announcement.
    static KNOWN: AtomicU32 = AtomicU32::new(0);
    // Relaxed: announcing twice is harmless.
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let works = announce(REGISTER_PRIVATE_EXPEDITED).is_ok();
            KNOWN.store(if works { 1 } else { 2 }, Ordering::Relaxed);
            works
        }
        known => known == 1,
    }
}

fn expedite(command: usize, flags: usize, cpu: usize) {
    // SAFETY: the commands take at most a CPU number and access no memory of ours.
    let result = unsafe { syscall(libc::SYS_membarrier, [command, flags, cpu, 0, 0, 0]) };
    if result < 0 {
        failed();
    }
}

#[cold]
fn failed() -> ! {
    crate::end::abort(
        "atomseq: the membarrier system call worked at start-up and fails now (was a sandbox set up \
         since?); allow membarrier, or set ATOMSEQ_DISABLE_RSEQ=1\n",
    )
}
