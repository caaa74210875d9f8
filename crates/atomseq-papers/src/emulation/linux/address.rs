//! Checks through the kernel that the program may write an address, and raises the fault if it may
//! not.

use std::ffi::c_void;
use std::io;
use std::mem;
use std::ptr;
use std::sync::atomic::AtomicU32;

use crate::emulation::Error;

/// The fault of an address that the program may not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub signal: i32,
    /// The signal's `si_code`.
    pub code: i32,
}

const MISALIGNED: Fault = Fault {
    signal: libc::SIGBUS,
    code: libc::BUS_ADRALN,
};
const BEYOND_THE_FILE: Fault = Fault {
    signal: libc::SIGBUS,
    code: libc::BUS_ADRERR,
};
// These codes are missing in the libc crate.
const NOT_MAPPED: Fault = Fault {
    signal: libc::SIGSEGV,
    code: 1,
};
const NOT_ALLOWED: Fault = Fault {
    signal: libc::SIGSEGV,
    code: 2,
};

/// Adds 0 to the word at `address` in the kernel, which fails with `EFAULT` if the program could
/// not write it.
fn add_nothing(address: u64) -> Result<(), i32> {
    // The call must also wake waiters of a word. No thread waits for this one.
    static NOBODY: AtomicU32 = AtomicU32::new(0);
    const OPERATION: i32 = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
    // The operation: add 0, and wake a waiter of the word if the old value was less than -2048. For
    // such a waiter this is a spurious wake-up.
    const ADD: u32 = 1 << 28;
    const LESS: u32 = 2 << 24;
    const LEAST: u32 = 0x800;
    // SAFETY: the kernel checks the address itself, and adding 0 changes no memory.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            NOBODY.as_ptr(),
            OPERATION,
            0,
            0usize,
            address as usize,
            ADD | LESS | LEAST,
        )
    };
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
    }
}

/// Checks that the kernel answers correctly.
pub fn try_check() -> Result<(), Error> {
    let refused = |errno| Error::Refused {
        call: "FUTEX_WAKE_OP",
        errno,
    };
    let mut word = 7u32;
    add_nothing((&raw mut word) as u64).map_err(refused)?;
    static READ_ONLY: u32 = 7;
    match add_nothing((&raw const READ_ONLY) as u64) {
        Err(libc::EFAULT) => Ok(()),
        Err(errno) => Err(refused(errno)),
        Ok(()) => Err(refused(0)),
    }
}

/// Returns whether the program may write the word at an address. Async-signal-safe; costs one
/// system call if it may.
pub fn check(address: u64) -> Result<(), Fault> {
    if !address.is_multiple_of(4) {
        return Err(MISALIGNED);
    }
    match add_nothing(address) {
        Ok(()) => Ok(()),
        Err(_) => Err(reason(address)),
    }
}

/// Returns why the word at an address cannot be written.
fn reason(address: u64) -> Fault {
    // SAFETY: the call takes a number and accesses no memory.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let page = (address & !(size - 1)) as *mut c_void;
    // Makes the page writable as a write would, which fails with `EFAULT` for a page beyond the
    // file.
    // SAFETY: the call changes no memory's value.
    let populated = unsafe { libc::madvise(page, size as usize, libc::MADV_POPULATE_WRITE) };
    if populated != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) {
        return BEYOND_THE_FILE;
    }
    let mut resident = 0;
    // SAFETY: the kernel writes one byte for one page.
    match unsafe { libc::mincore(page, size as usize, &mut resident) } {
        0 => NOT_ALLOWED,
        _ => NOT_MAPPED,
    }
}

/// Raises a fault on this thread, as if the interrupted instruction had accessed the address. The
/// signal is delivered when the handler returns, with an unchanged program counter.
///
/// # Safety
///
/// `context` must be the context that the kernel gave the calling handler. The handler must return
/// after this without changing signal masks.
pub unsafe fn raise(fault: Fault, address: u64, context: *mut c_void) {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the structures are plain data, for which zero is valid. The system calls only access
    // memory of this function. By the contract, the context is valid and owned by the handler.
    unsafe {
        let mut only: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut only);
        libc::sigaddset(&mut only, fault.signal);
        // Keeps the signal from being delivered inside this handler.
        libc::pthread_sigmask(libc::SIG_BLOCK, &only, ptr::null_mut());

        // As in the kernel, a blocked or ignored fault kills the process.
        let mut action: libc::sigaction = mem::zeroed();
        libc::sigaction(fault.signal, ptr::null(), &mut action);
        let is_blocked = libc::sigismember(&raw const (*context).uc_sigmask, fault.signal) == 1;
        if is_blocked || action.sa_sigaction == libc::SIG_IGN {
            action.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(fault.signal, &action, ptr::null_mut());
            libc::sigdelset(&raw mut (*context).uc_sigmask, fault.signal);
        }

        let record = Record {
            signal: fault.signal,
            errno: 0,
            code: fault.code,
            address,
            rest: [0; 13],
        };
        // A thread may send itself any record. If the kernel has no memory for it, the signal is
        // sent without one.
        let (process, thread) = (libc::getpid(), libc::gettid());
        let sent = libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            process,
            thread,
            fault.signal,
            &raw const record,
        );
        if sent != 0 {
            libc::syscall(libc::SYS_tgkill, process, thread, fault.signal);
        }
    }
}

/// The kernel's `siginfo_t` of a fault.
#[repr(C)]
struct Record {
    signal: i32,
    errno: i32,
    code: i32,
    address: u64,
    rest: [u64; 13],
}

const _: () = assert!(size_of::<Record>() == size_of::<libc::siginfo_t>());
