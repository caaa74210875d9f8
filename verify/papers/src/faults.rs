//! The program's own handlers of faults, as they were written long before atomseq.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};

/// What a handler was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its first argument.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
    /// `si_addr`.
    pub address: usize,
    /// Of the interrupted thread.
    pub program_counter: usize,
}

static SIGNAL: AtomicI32 = AtomicI32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static ADDRESS: AtomicUsize = AtomicUsize::new(0);
static PROGRAM_COUNTER: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicI32 = AtomicI32::new(0);

/// The last fault, and how many there were.
pub fn seen() -> (Seen, i32) {
    let seen = Seen {
        signal: SIGNAL.load(SeqCst),
        code: CODE.load(SeqCst),
        address: ADDRESS.load(SeqCst),
        program_counter: PROGRAM_COUNTER.load(SeqCst),
    };
    (seen, COUNT.load(SeqCst))
}

/// Notes a fault. To be called by a handler, with what it got.
///
/// # Safety
///
/// In a handler with `SA_SIGINFO`.
pub unsafe fn note(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    SIGNAL.store(signal, SeqCst);
    // SAFETY: the kernel's record and context.
    unsafe {
        CODE.store((*info).si_code, SeqCst);
        ADDRESS.store((*info).si_addr() as usize, SeqCst);
        PROGRAM_COUNTER.store(program_counter(context).read() as usize, SeqCst);
    }
    COUNT.fetch_add(1, SeqCst);
}

/// Where the interrupted thread's program counter is saved.
#[cfg(target_arch = "x86_64")]
pub fn program_counter(context: *mut libc::c_void) -> *mut u64 {
    // SAFETY: a handler's context; only an address is made.
    unsafe {
        (&raw mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize])
            .cast()
    }
}

/// Where the interrupted thread's program counter is saved.
#[cfg(target_arch = "aarch64")]
pub fn program_counter(context: *mut libc::c_void) -> *mut u64 {
    // SAFETY: a handler's context; only an address is made.
    unsafe { &raw mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc }
}
