//! The fence: after it, no section that was running on that CPU is still running.

use crate::arch::syscall;

const QUERY: usize = 0;
const PRIVATE_EXPEDITED_RSEQ: usize = 1 << 7;
const REGISTER_PRIVATE_EXPEDITED_RSEQ: usize = 1 << 8;
const FLAG_CPU: usize = 1;

/// Whether the kernel has the fence: `Err` holds an error number.
pub(super) fn available() -> Result<(), i32> {
    // SAFETY: a query changes nothing.
    let commands = unsafe { syscall(libc::SYS_membarrier, [QUERY, 0, 0, 0, 0, 0]) };
    if commands < 0 {
        return Err(-commands as i32);
    }
    if commands as usize & PRIVATE_EXPEDITED_RSEQ == 0 {
        return Err(libc::EINVAL);
    }
    Ok(())
}

/// Announces that this process will use the fence. Children of `fork` inherit it.
pub(super) fn register() -> Result<(), i32> {
    // SAFETY: sets a mark on this process, no more.
    let result = unsafe {
        syscall(
            libc::SYS_membarrier,
            [REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0, 0, 0, 0],
        )
    };
    if result < 0 {
        Err(-result as i32)
    } else {
        Ok(())
    }
}

/// Aborts every section of this process that runs on `cpu`, and returns once none of those runs any more. An
/// absent CPU is no error: nothing runs there. Call it only while [`Status::gates_active`] holds.
///
/// A fence that worked at start-up and fails now (a sandbox set up late) leaves no way to go on safely: the caller
/// would change memory under a running section. So it says so on standard error and aborts the process.
///
/// [`Status::gates_active`]: crate::status::Status::gates_active
pub fn fence(cpu: usize) {
    // SAFETY: the command takes a CPU number and touches no memory of ours.
    let result = unsafe {
        syscall(
            libc::SYS_membarrier,
            [PRIVATE_EXPEDITED_RSEQ, FLAG_CPU, cpu, 0, 0, 0],
        )
    };
    if result < 0 {
        failed();
    }
}

#[cold]
fn failed() -> ! {
    let sentence = b"atomseq: the membarrier system call worked at start-up and fails now (was a sandbox set up \
        since?); allow membarrier, or set ATOMSEQ_DISABLE_RSEQ=1\n";
    // SAFETY: writes a constant to standard error; `abort` ends the process.
    unsafe {
        syscall(
            libc::SYS_write,
            [2, sentence.as_ptr() as usize, sentence.len(), 0, 0, 0],
        );
        libc::abort()
    }
}
