//! Interrupting a sequence at a chosen instruction: one of its words lies on a page that may not be
//! touched, the fault's handler lets it be touched and unblocks a signal that was pending, so the
//! kernel delivers that before the instruction runs again.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};

use crate::signals::{change_mask, install_plainly};

/// A page of words, the first of which is at the end of it if the page is to be met late.
pub struct Page(usize);

const PAGE: usize = 4096;

/// The page that faults, and the signal to unblock when it does; 0: none.
static WATCHED: AtomicUsize = AtomicUsize::new(0);
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// How often the page is still to fault.
static TIMES: AtomicI32 = AtomicI32::new(0);
/// What the fault's handler saw.
static FAULTS: AtomicI32 = AtomicI32::new(0);
static LAST_PC: AtomicUsize = AtomicUsize::new(0);

/// How many faults there were, and the program counter of the last one.
pub fn faults() -> (i32, usize) {
    (FAULTS.load(SeqCst), LAST_PC.load(SeqCst))
}

impl Page {
    /// Two pages, the second one of which can be made to fault. Install the fault's handler first.
    pub fn new() -> Page {
        // SAFETY: fresh memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                2 * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED);
        Page(start as usize)
    }

    /// Words of which those from index `before` on lie on the page that faults.
    pub fn words(&self, before: usize) -> *mut usize {
        (self.0 + PAGE - 8 * before) as *mut usize
    }

    /// Lets the page fault when it is next touched; `signal`, if it is not 0, is blocked and sent
    /// now, and unblocked by the fault.
    pub fn interrupt(&self, signal: i32) {
        self.interrupt_again(signal, 1);
    }

    /// As `interrupt`, with `times` faults in a row at the same instruction. The first one
    /// unblocks.
    pub fn interrupt_again(&self, signal: i32, times: i32) {
        self.arm(signal, times, libc::PROT_NONE);
    }

    /// As `interrupt`, when the page is next written to.
    pub fn interrupt_store(&self, signal: i32) {
        self.arm(signal, 1, libc::PROT_READ);
    }

    fn arm(&self, signal: i32, times: i32, protection: i32) {
        if signal != 0 {
            change_mask(libc::SIG_BLOCK, &[signal]);
            crate::signals::raise(signal);
        }
        SIGNAL.store(signal, SeqCst);
        TIMES.store(times, SeqCst);
        WATCHED.store(self.0 + PAGE, SeqCst);
        protect(self.0 + PAGE, protection);
    }

    /// Lets the page be touched.
    pub fn release(&self) {
        protect(self.0 + PAGE, libc::PROT_READ | libc::PROT_WRITE);
    }
}

impl Default for Page {
    fn default() -> Page {
        Page::new()
    }
}

fn protect(address: usize, protection: i32) {
    // SAFETY: a page of a `Page`.
    let result = unsafe { libc::mprotect(address as *mut libc::c_void, PAGE, protection) };
    assert_eq!(result, 0);
}

/// Installs the handler of faults as a library would that knows nothing of atomseq.
pub fn install_fault_handler() {
    install_plainly(libc::SIGSEGV, on_fault, 0, &[]);
}

/// The program counter in a context.
pub fn program_counter(context: *mut libc::c_void) -> *mut usize {
    let context: *mut libc::ucontext_t = context.cast();
    // SAFETY: the kernel's context; only an address is made.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        return (&raw mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize]).cast();
        #[cfg(target_arch = "aarch64")]
        return (&raw mut (*context).uc_mcontext.pc).cast();
    }
}

/// The mask in a context.
pub fn mask(context: *mut libc::c_void) -> *mut libc::sigset_t {
    let context: *mut libc::ucontext_t = context.cast();
    // SAFETY: the kernel's context; only an address is made.
    unsafe { &raw mut (*context).uc_sigmask }
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: a fault's record.
    let address = unsafe { (*info).si_addr() } as usize;
    let page = WATCHED.load(SeqCst);
    if page == 0 || address.wrapping_sub(page) >= PAGE {
        // Not one of ours: happens again, and kills.
        // SAFETY: the default action.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    FAULTS.fetch_add(1, SeqCst);
    // SAFETY: the kernel's context.
    LAST_PC.store(unsafe { *program_counter(context) }, SeqCst);
    if TIMES.fetch_sub(1, SeqCst) <= 1 {
        protect(page, libc::PROT_READ | libc::PROT_WRITE);
    }
    let pending = SIGNAL.swap(0, SeqCst);
    if pending != 0 {
        // SAFETY: the context's set, whose first 8 bytes are the kernel's.
        unsafe { libc::sigdelset(mask(context), pending) };
    }
}
