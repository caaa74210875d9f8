//! Tools for tests of the emulated instruction: a program's own handlers of faults, written as if
//! without atomseq, and addresses that cannot be written. For those of rollforward, a queue.
#![cfg(target_os = "linux")]

pub mod queue;

use std::ffi::c_int;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicUsize};

/// The arguments of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its first argument.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
    /// `si_addr`.
    pub address: usize,
    /// The interrupted thread's program counter.
    pub program_counter: usize,
}

static SIGNAL: AtomicI32 = AtomicI32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static ADDRESS: AtomicUsize = AtomicUsize::new(0);
static PROGRAM_COUNTER: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicI32 = AtomicI32::new(0);

/// Returns the last fault, and the number of faults.
pub fn seen() -> (Seen, i32) {
    let seen = Seen {
        signal: SIGNAL.load(SeqCst),
        code: CODE.load(SeqCst),
        address: ADDRESS.load(SeqCst),
        program_counter: PROGRAM_COUNTER.load(SeqCst),
    };
    (seen, COUNT.load(SeqCst))
}

/// Records a fault. Called by a handler, with its arguments.
///
/// # Safety
///
/// The caller is a handler with `SA_SIGINFO`, and passes its own arguments.
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

/// Returns the address of the interrupted thread's saved program counter.
#[cfg(target_arch = "x86_64")]
pub fn program_counter(context: *mut libc::c_void) -> *mut u64 {
    // SAFETY: a handler's context; only an address is made.
    unsafe {
        (&raw mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize])
            .cast()
    }
}

/// Returns the address of the interrupted thread's saved program counter.
#[cfg(target_arch = "aarch64")]
pub fn program_counter(context: *mut libc::c_void) -> *mut u64 {
    // SAFETY: a handler's context; only an address is made.
    unsafe { &raw mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc }
}

const PAGE: usize = 4096;

/// Maps fresh memory, which is never unmapped.
pub fn pages(count: usize, protection: c_int) -> usize {
    // SAFETY: a new mapping.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            count * PAGE,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(start, libc::MAP_FAILED);
    start as usize
}

/// Changes the protection of a page.
pub fn protect(page: usize, protection: c_int) {
    // SAFETY: a page of `pages`.
    let result = unsafe { libc::mprotect(page as *mut _, PAGE, protection) };
    assert_eq!(result, 0);
}

/// Returns a page that is readable, and holds 0.
pub fn read_only() -> usize {
    let page = pages(1, libc::PROT_READ);
    // SAFETY: the page is readable.
    assert_eq!(unsafe { (page as *const u32).read_volatile() }, 0);
    page
}

/// Returns the address of an unmapped page.
pub fn unmapped() -> usize {
    let page = pages(1, libc::PROT_READ);
    // SAFETY: no thread uses the page.
    assert_eq!(unsafe { libc::munmap(page as *mut _, PAGE) }, 0);
    page
}

/// Returns a mapped page beyond the end of its file.
pub fn beyond_the_end_of_a_file() -> usize {
    // SAFETY: a new file without a name, and a new mapping of it.
    let page = unsafe {
        let file = libc::memfd_create(c"empty".as_ptr(), 0);
        assert!(file >= 0);
        libc::mmap(
            std::ptr::null_mut(),
            PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file,
            0,
        )
    };
    assert_ne!(page, libc::MAP_FAILED);
    page as usize
}

/// The instruction that traps, executed at any address.
#[cfg(atomseq_sections)]
pub mod instruction {
    use std::ffi::c_void;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    use atomseq_papers::emulation::test_and_set_at;

    /// Executes the instruction, at the same address every time; returns the word's old value.
    #[inline(never)]
    pub fn execute(address: usize) -> u32 {
        // SAFETY: valid addresses are words that these tests access in no other way meanwhile; the
        // others are what is tested.
        unsafe { test_and_set_at(address as *mut u32) }
    }

    /// The address of the instruction, from its fault.
    pub static HERE: AtomicUsize = AtomicUsize::new(0);

    /// A handler that records the fault, and continues after the instruction.
    #[allow(
        clippy::not_unsafe_ptr_arg_deref,
        reason = "the type of handlers in these tests; only the kernel calls it"
    )]
    pub extern "C" fn note_and_skip(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel's arguments.
        unsafe { crate::note(signal, info, context) };
        let counter = crate::program_counter(context);
        // SAFETY: in the context; the instruction's length follows from its first bytes, and its
        // result is not used.
        unsafe {
            HERE.store(counter.read() as usize, SeqCst);
            counter.write(counter.read() + length(counter.read() as usize));
        }
    }

    /// Returns the length of the instruction at an address, and checks that it is one.
    #[cfg(target_arch = "x86_64")]
    pub fn length(at: usize) -> u64 {
        // SAFETY: code, which may be read.
        let byte = |offset: usize| unsafe { ((at + offset) as *const u8).read() };
        let prefix = usize::from(byte(0) >> 4 == 4);
        assert_eq!(
            (byte(prefix), byte(prefix + 1)),
            (0x0f, 0xb9),
            "no ud1 at {at:#x}"
        );
        let is_indexed = byte(prefix + 2) & 7 == 4;
        (prefix + 7 + usize::from(is_indexed)) as u64
    }

    /// Returns the length of the instruction at an address, and checks that it is one.
    #[cfg(target_arch = "aarch64")]
    pub fn length(at: usize) -> u64 {
        // SAFETY: code, which may be read.
        let word = unsafe { (at as *const u32).read() };
        assert_eq!(word >> 16, 0, "no udf at {at:#x}");
        8
    }
}
