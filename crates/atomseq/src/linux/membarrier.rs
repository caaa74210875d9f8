//! The fence: after it, no section that was running on that CPU is still running. And the barrier,
//! which orders memory on all CPUs and aborts nothing.

use crate::arch::syscall;
use core::sync::atomic::{AtomicU32, Ordering};

const QUERY: usize = 0;
const PRIVATE_EXPEDITED: usize = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: usize = 1 << 4;
const PRIVATE_EXPEDITED_RSEQ: usize = 1 << 7;
const REGISTER_PRIVATE_EXPEDITED_RSEQ: usize = 1 << 8;
const FLAG_CPU: usize = 1;

/// Whether the kernel has both: `Err` holds an error number.
pub(super) fn available() -> Result<(), i32> {
    // SAFETY: a query changes nothing.
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
    // SAFETY: the commands set a mark on this process, no more.
    let result = unsafe { syscall(libc::SYS_membarrier, [command, 0, 0, 0, 0, 0]) };
    if result < 0 {
        return Err(-result as i32);
    }
    Ok(())
}

/// Aborts every section of this process that runs on `cpu`, and returns once none of those runs any
/// more. An absent CPU is no error: nothing runs there. Call it only while [`Status::gates_active`]
/// holds.
///
/// A fence that worked at start-up and fails now (a sandbox set up late) leaves no way to go on
/// safely: the caller would change memory under a running section. So it says so on standard error
/// and aborts the process.
///
/// [`Status::gates_active`]: crate::status::Status::gates_active
pub fn membarrier_rseq(cpu: usize) {
    expedite(PRIVATE_EXPEDITED_RSEQ, FLAG_CPU, cpu);
}

/// The same on all CPUs.
pub fn fence_all() {
    expedite(PRIVATE_EXPEDITED_RSEQ, 0, 0);
}

/// A full memory barrier on every CPU that runs a thread of this process, at some moment between
/// call and return; a thread that runs on none has had one since it ran, or will before it does.
/// Call it only while [`Status::gates_active`] holds, or if it [works](can_order_all); it fails as
/// [`membarrier_rseq`] does.
///
/// [`Status::gates_active`]: crate::status::Status::gates_active
pub fn barrier() {
    expedite(PRIVATE_EXPEDITED, 0, 0);
}

/// Are waits ordered by [`barrier`] here, and not by the other side?
pub const ORDERS_ALL: bool = true;

/// Does [`barrier`] work in this process? Asks for it if nobody has. Async-signal-safe.
pub fn can_order_all() -> bool {
    /// 0 unknown, 1 yes, 2 no. Children of `fork` inherit both this and what it says.
    static KNOWN: AtomicU32 = AtomicU32::new(0);
    // Relaxed: asking twice does no harm.
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
    // SAFETY: the commands take a CPU number at most, and touch no memory of ours.
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
