//! Whether an address is the program's to write, asked of the kernel; and the fault if it is not.

use std::ffi::c_void;
use std::io;
use std::mem;
use std::ptr;
use std::sync::atomic::AtomicU32;

use crate::emulation::Error;

/// Why an address is not the program's to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub signal: i32,
    /// `si_code`.
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
// Not in the libc crate.
const NOT_MAPPED: Fault = Fault {
    signal: libc::SIGSEGV,
    code: 1,
};
const NOT_ALLOWED: Fault = Fault {
    signal: libc::SIGSEGV,
    code: 2,
};

/// Adds 0 to the word at `address`, in the kernel, which fails with `EFAULT` where the program
/// could not write.
fn add_nothing(address: u64) -> Result<(), i32> {
    // A word that nobody waits for, which the call insists on waking.
    static NOBODY: AtomicU32 = AtomicU32::new(0);
    const OPERATION: i32 = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
    // Add 0; and wake somebody who waits for the word if it was less than -2048, which for waiters
    // is a wake-up without reason.
    const ADD: u32 = 1 << 28;
    const LESS: u32 = 2 << 24;
    const LEAST: u32 = 0x800;
    // SAFETY: the kernel checks the address itself; memory keeps its value.
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

/// Does the kernel answer?
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

/// May the program write the word at that address? Async-signal-safe; a system call.
pub fn check(address: u64) -> Result<(), Fault> {
    if !address.is_multiple_of(4) {
        return Err(MISALIGNED);
    }
    match add_nothing(address) {
        Ok(()) => Ok(()),
        Err(_) => Err(reason(address)),
    }
}

/// Why the word at that address cannot be written.
fn reason(address: u64) -> Fault {
    // SAFETY: a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let page = (address & !(size - 1)) as *mut c_void;
    // Makes the page writable as a write would, which is as far as a bad address gets.
    // SAFETY: changes no memory's value.
    let populated = unsafe { libc::madvise(page, size as usize, libc::MADV_POPULATE_WRITE) };
    if populated != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) {
        return BEYOND_THE_FILE;
    }
    let mut resident = 0;
    // SAFETY: one page needs one byte.
    match unsafe { libc::mincore(page, size as usize, &mut resident) } {
        0 => NOT_ALLOWED,
        _ => NOT_MAPPED,
    }
}

/// Makes a fault of this thread, as if the interrupted instruction had accessed the address: the
/// signal is delivered when the handler returns, with the program counter where it is.
///
/// # Safety
///
/// `context` is what the kernel gave the calling handler, which returns after this without changing
/// signals' masks.
pub unsafe fn raise(fault: Fault, address: u64, context: *mut c_void) {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: plain old data, all system calls with memory of this function, and the context by the
    // caller's promise.
    unsafe {
        let mut only: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut only);
        libc::sigaddset(&mut only, fault.signal);
        // Not in the middle of this handler.
        libc::pthread_sigmask(libc::SIG_BLOCK, &only, ptr::null_mut());

        // A fault that is blocked or ignored kills, as the kernel has it.
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
        // A thread may give itself any record. Without memory for it there is one without.
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

/// What the kernel takes for a `siginfo_t`, of a fault.
#[repr(C)]
struct Record {
    signal: i32,
    errno: i32,
    code: i32,
    address: u64,
    rest: [u64; 13],
}

const _: () = assert!(size_of::<Record>() == size_of::<libc::siginfo_t>());
